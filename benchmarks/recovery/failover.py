"""How long a partition on Kubernetes is without a worker, by what was lost and how it came back.

The figures; `recovery_cluster.py` takes them.
"""

from enum import StrEnum
from statistics import median

from pydantic import BaseModel, ConfigDict


class Rung(StrEnum):
    """A step of the restore ladder, in the order in which they can be tried on one stream."""

    REATTACH = "reattach"
    REBUILD = "rebuild"
    CSI = "CSI snapshot"
    S3 = "S3 snapshot"

    @property
    def lost(self) -> str:
        """What the partition loses before."""
        if self is Rung.REATTACH:
            return "the pod deleted by force"
        return "claim, volume and pod deleted" + (", no snapshots" if self is Rung.REBUILD else "")


class Climb(BaseModel):
    """A partition with `keys` ids came back by a rung. `seconds` are from its loss until its pod was ready, one for
    each time it was lost; `start_seconds` those of them from the start of the new container on."""

    model_config = ConfigDict(frozen=True)

    keys: int
    rung: Rung
    seconds: list[float]
    start_seconds: list[float]

    @property
    def typical(self) -> float:
        """The median, in seconds."""
        return median(self.seconds)


class Failover(BaseModel):
    """All sizes and rungs, on a cluster of so many `nodes` on one machine."""

    model_config = ConfigDict(frozen=True)

    nodes: int
    climbs: list[Climb]

    def of(self, rung: str) -> list[Climb]:
        """Those by one rung, from small to large."""
        return [climb for climb in self.climbs if climb.rung == rung]
