"""Drain of a stream without routers: its workers, up to the ends of the input.

The fleet calls it. A partition whose end cannot be read now, such as one without a leader, is asked for again, and the
others are drained meanwhile. The condition is that of `drain`.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from confluent_kafka import IsolationLevel

from dedupe_crds.status.worker import WorkerStatus
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError, TopicMissing
from dedupe_local.run.drain import WorkerDrain

_ASK_SECONDS: Final = 1.0


class DirectDrain:
    """Tracks the workers of the `served` partitions of an input."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        served: Collection[int],
        stall_seconds: float,
        now: float,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._stall_seconds = stall_seconds
        self._began = self._asked_at = now
        self._workers = WorkerDrain({}, stall_seconds, now)
        self._unknown: dict[int, StreamError] = {}
        self._learn_ends(served, now)

    def observe(self, statuses: Sequence[WorkerStatus | None], now: float) -> None:
        """Record the workers' statuses, by partition; None is no answer."""
        if self._unknown and now - self._asked_at >= _ASK_SECONDS:
            self._asked_at = now
            with suppress(StreamError):  # the workers name it too
                self._learn_ends(list(self._unknown), now)
        self._workers.observe(statuses, now)

    def _learn_ends(self, partitions: Collection[int], now: float) -> None:
        # Not the last stable offsets: what open transactions hide must be read as well.
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        found = self._cluster.offsets_of(self._topic, partitions, uncommitted)
        absent = TopicMissing(f"{self._topic} has no such partition any more")
        self._unknown = {each: absent for each in partitions if each not in found.ends}
        self._unknown |= found.failed
        self._workers.extend(found.ends, now)

    @property
    def done(self) -> bool:
        """Return whether every partition is at its end."""
        return not self._unknown and self._workers.done

    def stalled(self, now: float) -> list[str]:
        """Return a sentence for each partition that makes no progress."""
        is_late = now - self._began >= self._stall_seconds
        return [*self._workers.stalled(now), *(self._without_end() if is_late else [])]

    def missing(self) -> list[str]:
        """Return a sentence for each partition that is not at its end."""
        return [*self._workers.missing(), *self._without_end()]

    def _without_end(self) -> list[str]:
        return [
            f"the end of partition {number} is not known: {why.reason}: {why}"
            for number, why in sorted(self._unknown.items())
        ]
