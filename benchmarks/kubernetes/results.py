"""Results of the benchmark of the operator; `fleet.py` measures them."""

from benchmarks.harness.model import Model


class Readiness(Model):
    """Seconds from `kubectl apply` until the stream's condition Ready is true."""

    partitions: int
    seconds: float


class Cost(Model):
    """The operator's use over a time.

    Requests for its Lease and its watches are not counted.
    """

    streams: int
    doing: str
    seconds: float
    reads: float
    writes: float
    memory_bytes: float


class OperatorUse(Model):
    """All measurements, on a cluster of so many `nodes` on this machine."""

    nodes: int
    readiness: list[Readiness]
    costs: list[Cost]
