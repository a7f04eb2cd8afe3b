"""Result of the benchmark of an operator with many streams at rest."""

from benchmarks.harness.model import Model


class OperatorLoad(Model):
    """The use of `streams`, of so many partitions each, over so many seconds at rest.

    `requests` are those to the API server, by kind, opened watches included.
    """

    streams: int
    partitions: int
    ready_seconds: float
    seconds: float
    cpu_seconds: float
    memory_bytes: int
    requests: dict[str, int]

    @property
    def cores(self) -> float:
        """Return the operator's share of a core."""
        return self.cpu_seconds / self.seconds

    @property
    def per_second(self) -> dict[str, float]:
        """Return the requests a second, by kind, most frequent first."""
        ordered = sorted(self.requests.items(), key=lambda each: -each[1])
        return {what: count / self.seconds for what, count in ordered}
