"""Read and write a stream's status, which may be in several objects.

The reconciler keeps one `StatusWriter` for each stream. An idle stream causes no writes.
"""

from collections.abc import Callable, Collection, Sequence
from time import monotonic
from typing import Final

from pydantic import ValidationError

from dedupe_crds.formatting import ranges
from dedupe_crds.spec.stream import API_VERSION, KIND
from dedupe_crds.status.partitions import group_of
from dedupe_crds.status.stream import PartitionStatus, StreamStatus
from dedupe_operator.controller.partition_groups import PartitionGroups
from dedupe_operator.decide.diagnosis import Problem, with_advice
from dedupe_operator.decide.stream_status import differs_only_in_numbers
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object

_NUMBERS_EVERY_SECONDS: Final = 60.0
_OWN: Final = ""


def read_status(raw: Object) -> StreamStatus:
    """Return the status in a stream's own object; an empty one if it can't be read.

    Fields that a newer operator added are left out.
    """
    try:
        return StreamStatus.model_validate(raw.get("status") or {}, extra="ignore")
    except ValidationError:
        return StreamStatus()


class StatusWriter:
    """Reads and writes one stream's status, which may be in several objects.

    `problem` is why the last write could not write all of them. `clock` returns seconds and never goes backward.
    """

    def __init__(self, api: KubernetesApi, *, clock: Callable[[], float] = monotonic) -> None:
        self.problem: Problem | None = None
        self._api = api
        self._clock = clock
        self._numbers_at: dict[str, float] = {}
        self._own = StreamStatus()
        self._groups = PartitionGroups(api, self._is_due)

    def read(self, raw: Object) -> StreamStatus:
        """Return a stream's whole status. Raises KubernetesError.

        An entry in the stream's own object counts before that of a group: an operator of a release without groups has
        written it, and the groups are of before or repeat it.
        """
        own = self.read_own(raw)
        if own.partitions and not own.partition_count:
            return own
        entries = self._groups.read(raw, may_be_absent=not own.partition_count)
        entries |= {each.partition: each for each in own.partitions}
        return own.model_copy(update={"partitions": [entries[each] for each in sorted(entries)]})

    def read_own(self, raw: Object) -> StreamStatus:
        """Return the status in a stream's own object."""
        self._groups.forget()
        self._own = read_status(raw)
        return self._own

    def forget(self) -> None:
        """Forget what was read; the next pass reads it again."""
        self._groups.forget()
        self._own = StreamStatus()

    def write(self, raw: Object, new: StreamStatus) -> Collection[int]:
        """Write what has changed; return the partitions whose status is refused.

        Numbers alone are written once a minute. Raises KubernetesError if the stream's own object can't be written, and
        ReadLive.
        """
        groups = {group_of(each.partition) for each in new.partitions} - {0}
        # First how many partitions there are: those of a refused group are not taken for added ones.
        moving = [each for each in self._own.partitions if group_of(each.partition)]
        count = max(_count(new), _count(self._own))
        self._write_listed(raw, new, moving, count)
        refused = self._groups.write(raw, new.partitions)
        lost = [each.partition for each in new.partitions if group_of(each.partition) in refused]
        self.problem = None
        if refused:
            error = next(iter(refused.values()))
            message = f"the status of partitions {ranges(lost)} can't be written: {error}"
            self.problem = with_advice(error.reason, message)
        # What a release without groups has written stays until it is elsewhere.
        waiting = [each for each in moving if group_of(each.partition) in refused]
        self._write_listed(raw, new, waiting, count)
        if not refused:
            self._groups.remove_unused(groups)
        return frozenset(lost)

    def _write_listed(
        self, raw: Object, new: StreamStatus, moving: Sequence[PartitionStatus], count: int
    ) -> None:
        """Write the stream's own object, with what is on its way to groups."""
        first = [each for each in new.partitions if not group_of(each.partition)]
        # The count stays while there are groups, so that the next pass finds those that are still to be removed.
        is_counted = self._groups.exist or count > len(first)
        update = {
            "partitions": [*first, *moving],
            "partition_count": count if is_counted else None,
        }
        self.write_own(raw, new.model_copy(update=update))

    def write_own(self, raw: Object, new: StreamStatus) -> None:
        """Write the status in the stream's own object if it must be written.

        Raises KubernetesError.
        """
        if not self._is_due(_OWN, self._own, new):
            return
        metadata = raw["metadata"]
        self._api.apply(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                # The UID prevents that a status is written to a new stream of the same name.
                "metadata": {name: metadata[name] for name in ("name", "namespace", "uid")},
                "status": new.model_dump(mode="json", by_alias=True, exclude_none=True),
            },
            subresource="status",
        )
        self._own = new

    def _is_due(self, name: str, old: StreamStatus, new: StreamStatus) -> bool:
        """Return whether a change must be written now; numbers alone once a minute."""
        if new == old:
            return False
        now, before = self._clock(), self._numbers_at.get(name, float("-inf"))
        if differs_only_in_numbers(old, new) and now - before < _NUMBERS_EVERY_SECONDS:
            return False
        self._numbers_at[name] = now
        return True


def _count(status: StreamStatus) -> int:
    """Return how many partitions a status knows of."""
    listed = max((each.partition + 1 for each in status.partitions), default=0)
    return max(listed, status.partition_count or 0)
