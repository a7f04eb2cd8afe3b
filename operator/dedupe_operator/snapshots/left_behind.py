"""Look for volumes that were made for claims that are gone, and say which stay.

The snapshot manager calls it once a pass; only the EBS provider makes volumes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.formatting import listed
from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.diagnosis import Problem, with_advice
from dedupe_operator.decide.snapshot_policy import Snapshot
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.snapshots.provider import Provider, ProviderError

_AGAIN: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class _Found:
    at: datetime
    problem: Problem | None


class LeftBehindWatch:
    """The watch over the volumes of all streams; a new process checks all of them."""

    def __init__(self, providers: Mapping[SnapshotProvider, Provider]) -> None:
        self._provider = providers[SnapshotProvider.EBS]
        self._found: dict[Key, _Found] = {}

    def forget(self, key: Key) -> None:
        """Forget a deleted stream."""
        self._found.pop(key, None)

    def act(
        self, context: ReconcileContext, result: ReconcileResult, snapshots: Sequence[Snapshot]
    ) -> None:
        """Look if it is time, and report the volumes that stay."""
        metadata = context.stream.metadata
        key = Key(metadata.namespace, metadata.name)
        ours = [each for each in snapshots if each.status.provider is SnapshotProvider.EBS]
        wanted = context.stream.spec.snapshots
        if not ours and (wanted is None or wanted.provider is not SnapshotProvider.EBS):
            self.forget(key)
            return
        last = self._found.get(key)
        if last is None or context.now - last.at >= _AGAIN:
            last = self._found[key] = _Found(context.now, self._look(context, result, ours))
        if last.problem:
            result.stream_problems.append(last.problem)

    def _look(
        self, context: ReconcileContext, result: ReconcileResult, snapshots: Sequence[Snapshot]
    ) -> Problem | None:
        entries = [entry for each in snapshots for entry in each.status.partitions]
        locations = [each.location for each in entries if each.location]
        try:
            found = self._provider.remove_left_behind(context.stream, locations)
        except ProviderError as error:
            return with_advice(error.reason, f"volumes of restores: {error}")
        for each in found.removed:
            event = StreamEvent(reason="LeftVolumeRemoved", message=f"Removed {each}.")
            result.events.append(event)
        if not found.kept:
            return None
        return Problem(
            reason="VolumesLeftBehind",
            message=f"volumes that restores made for PVCs that are gone cost money: {listed(found.kept, most=5)}",
        )
