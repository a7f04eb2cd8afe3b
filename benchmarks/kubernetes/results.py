"""Results of the benchmark of the operator; `fleet.py` measures them."""

from pydantic import BaseModel, ConfigDict


class Readiness(BaseModel):
    """Seconds from `kubectl apply` until the stream's condition Ready is true."""

    model_config = ConfigDict(frozen=True)

    partitions: int
    seconds: float


class Cost(BaseModel):
    """The operator's use over a time.

    Requests for its Lease and its watches are not counted.
    """

    model_config = ConfigDict(frozen=True)

    streams: int
    doing: str
    seconds: float
    reads: float
    writes: float
    memory_bytes: float


class OperatorUse(BaseModel):
    """All measurements, on a cluster of so many `nodes` on this machine."""

    model_config = ConfigDict(frozen=True)

    nodes: int
    readiness: list[Readiness]
    costs: list[Cost]
