"""How long a partition on Kubernetes is without a worker, by what was lost and how it came back.

The figures; `recovery_cluster.py` takes them.
"""

from enum import StrEnum
from statistics import median
from typing import Final

from pydantic import BaseModel, ConfigDict

GOAL_REATTACH_SECONDS: Final = 15.0
GOAL_CSI_SECONDS: Final = 30.0


class Rung(StrEnum):
    """A step of the restore ladder, in the order in which they can be tried on one stream."""

    REATTACH = "reattach"
    REBUILD = "rebuild"
    CSI = "CSI snapshot"
    S3 = "S3 snapshot"


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

    def of(self, rung: Rung) -> list[Climb]:
        """Those by one rung, from small to large."""
        return [climb for climb in self.climbs if climb.rung is rung]
