"""Results of failover on Kubernetes, by loss and source of the restore.

`cluster.py` measures them.
"""

from enum import StrEnum
from statistics import median

from benchmarks.harness.model import Model


class Rung(StrEnum):
    """A source that a store comes back from, in the order of their tests on a stream."""

    REATTACH = "reattach"
    REBUILD = "rebuild"
    CSI = "CSI snapshot"
    S3 = "S3 snapshot"

    @property
    def lost(self) -> str:
        """The loss before."""
        if self is Rung.REATTACH:
            return "the pod deleted by force"
        return "claim, volume and pod deleted" + (", no snapshots" if self is Rung.REBUILD else "")


class Climb(Model):
    """The recoveries of a partition with `keys` ids from a source.

    `seconds` are from the loss until the pod was ready, one number for each loss; `start_seconds` the part of them
    after the start of the new container.
    """

    keys: int
    rung: Rung
    seconds: list[float]
    start_seconds: list[float]

    @property
    def typical(self) -> float:
        """The median, in seconds."""
        return median(self.seconds)


class Failover(Model):
    """All sizes and sources, on a cluster of so many `nodes` on this machine."""

    nodes: int
    climbs: list[Climb]

    def of(self, rung: str) -> list[Climb]:
        """Return the recoveries from a source, from small to large."""
        return [climb for climb in self.climbs if climb.rung == rung]
