"""Lines of `status` and `describe-problem` about a growth of the partitions.

Invariant: pure functions, without I/O.
"""

from collections.abc import Iterator

from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_crds.status.stream import PartitionPhase
from dedupe_kubectl.objects import Stream


def growth_line(stream: Stream) -> str:
    """Return the state of a growth under way, "" without one."""
    growing = stream.condition("Growing", "True")
    return growing.message if growing else ""


def why_held_up(stream: Stream) -> str:
    """Return what holds up a growth under way; "" if it only takes its time."""
    growth, growing = stream.status.growth, stream.condition("Growing", "True")
    if growth is None or growing is None or stream.suspended:
        return ""
    blocking = "; ".join(_blocking(stream, growth))
    if growing.reason not in set(GrowthStep):
        return f"{growing.reason}: {growing.message}{f' Besides, {blocking}.' if blocking else ''}"
    waiting = f" waits for {', '.join(growth.waiting_for)}" if growth.waiting_for else ""
    return f"{growth.step}{waiting}: {blocking}" if blocking else ""


def _blocking(stream: Stream, growth: GrowthStatus) -> Iterator[str]:
    """Yield each process that the present step waits for, and that does not run."""
    if growth.step is GrowthStep.WAITING_FOR_ROUTERS:
        routers = stream.status.routers
        if routers is not None and routers.ready < routers.replicas:
            yield f"{routers.ready} of {routers.replicas} routers are ready"
        return
    for number in growth.waiting_for:
        partition = stream.partition(int(number))
        if partition is None:
            yield f"partition {number} has no worker yet"
        elif partition.ready and growth.step is GrowthStep.HANDING_OVER:
            yield f"partition {number} still runs without routers: its pod has not started again"
        elif not partition.ready and partition.phase is not PartitionPhase.RECONCILING:
            yield f"partition {number} is not ready ({partition.phase})"
