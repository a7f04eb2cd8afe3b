"""Decide whether one more partition may be copied. The snapshot runner calls it."""

from collections.abc import Mapping, Sequence

from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase
from dedupe_operator.kubernetes.names import Object


def may_start(
    wanted: PartitionSnapshot,
    entries: Sequence[PartitionSnapshot],
    pods: Mapping[int, Object],
    parallelism: int,
) -> bool:
    """Return whether a pending partition may be copied now.

    At most `parallelism` at the same time, one on each node: a copy reads its whole volume. A blocked partition (for
    example, its worker is down) blocks no other; but of them there is a bound too, so that one pass asks few of them.
    """
    running = [each for each in entries if each.phase is SnapshotPhase.RUNNING]
    working = [each for each in running if each.error is None]
    if len(working) >= parallelism or len(running) - len(working) >= 2 * parallelism:
        return False
    node = _node(pods.get(wanted.partition))
    return node is None or node not in {_node(pods.get(each.partition)) for each in working}


def _node(pod: Object | None) -> str | None:
    name = ((pod or {}).get("spec") or {}).get("nodeName")
    return str(name) if name else None
