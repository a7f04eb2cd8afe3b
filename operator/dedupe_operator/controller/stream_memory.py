"""The operator's memory of one stream between passes. It may be lost.

The reconciler keeps one `StreamMemory` for each stream.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dedupe_crds.status.stream import StreamStatus
from dedupe_operator.controller.context import ReconcileResult
from dedupe_operator.controller.event_recorder import EventRecorder
from dedupe_operator.controller.kafka_view import KafkaWatches
from dedupe_operator.controller.status_writer import StatusWriter
from dedupe_operator.controller.unreconciled import unfinished_status
from dedupe_operator.decide.growth import growth_events
from dedupe_operator.decide.stream_status import StreamEvent, condition_events
from dedupe_operator.kubernetes.event_reader import EventReader
from dedupe_operator.kubernetes.names import Object

_PASSES: Final = 3
_SECONDS: Final = 60.0
"""A status says that no pass is finished after so many, or after this time: one refusal alone must not."""


@dataclass(slots=True)
class StreamMemory:
    """State of one stream. `passes` counts those that have begun."""

    uid: str
    kafka: KafkaWatches
    reasons: EventReader
    writer: StatusWriter
    events: EventRecorder
    passes: int = 0
    _failed: int = 0
    _failing_since: float = 0.0

    def finished(self) -> None:
        """Note that a pass came to its end."""
        self._failed = 0
        self.writer.forget()

    def failed(self, now: float) -> bool:
        """Note that a pass failed; return whether the status must say so by now.

        `now` is in seconds.
        """
        if not self._failed:
            self._failing_since = now
        self._failed += 1
        return self._failed >= _PASSES or now - self._failing_since >= _SECONDS

    def write(
        self,
        raw: Object,
        recorded: StreamStatus,
        status: StreamStatus,
        result: ReconcileResult | None = None,
    ) -> None:
        """Write the status, then emit the events of the pass and of changed conditions.

        Raises KubernetesError.
        """
        self.writer.write(raw, status)
        self._emit(raw, recorded, status, result.events if result else ())

    def write_unfinished(self, raw: Object, error: Exception, now: datetime) -> None:
        """Write that no pass can be finished, into the stream's own object only.

        The others may be what can't be read. Raises KubernetesError.
        """
        recorded = self.writer.read_own(raw)
        status = unfinished_status(raw, recorded, error, now)
        self.writer.write_own(raw, status)
        self._emit(raw, recorded, status, ())

    def _emit(
        self,
        raw: Object,
        recorded: StreamStatus,
        status: StreamStatus,
        events: Iterable[StreamEvent],
    ) -> None:
        changed = condition_events(recorded.conditions, status.conditions)
        grown = growth_events(recorded.growth, status.growth)
        self.events.emit(raw, [*events, *grown, *changed])
