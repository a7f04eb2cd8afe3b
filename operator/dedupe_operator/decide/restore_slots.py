"""Decide how many requested restores may start now. The volume manager calls it."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from dedupe_crds.status.stream import PartitionStatus
from dedupe_operator.decide.diagnosis import mounted_claim
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.decide.volume_claims import REQUESTED
from dedupe_operator.kubernetes.names import Object

_AT_ONCE: Final = 4
"""Requested restores of one stream at the same time: each reads a whole copy, or the whole output."""


def free_slots(
    recorded: Iterable[PartitionStatus], pods: Mapping[int, Object], waiting: Collection[int]
) -> int:
    """Return how many requested restores may start.

    `waiting` are the partitions whose request has not started.
    """
    working = [
        each
        for each in recorded
        if each.restore is not None
        and each.restore.reason == REQUESTED
        and each.partition not in waiting
        and not _is_over(each, pods.get(each.partition))
    ]
    return max(0, _AT_ONCE - len(working))


def _is_over(recorded: PartitionStatus, pod: Object | None) -> bool:
    """Return whether a restore has ended, or is blocked and copies nothing.

    The pod on the volume before it says nothing of the restore.
    """
    if mounted_claim(pod) != recorded.persistent_volume_claim:
        return False
    return is_ready(pod) or recorded.message is not None
