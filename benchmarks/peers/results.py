"""Results of the peers."""

from statistics import median
from typing import Final

from benchmarks.harness.check import Verdict
from benchmarks.harness.measure import Speed
from benchmarks.harness.model import Model

ENOUGH_MESSAGES: Final = 1_000_000


class SteadyRun(Speed):
    """A run through the input, in its steady state.

    Messages are those read, duplicates included; CPU seconds are those of all of its processes, without the broker's.
    """

    broker_cpu_seconds: float
    other_cpu_seconds: float
    """Of everything else on the machine: the benchmark itself, and whoever else was at work."""
    peak_bytes: int
    """Resident memory of all of its processes together, from its start to its end."""
    router_cpu_seconds: float = 0.0
    """Of `cpu_seconds`, those of our routers for the same number of messages."""
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.per_cpu_second:,.0f} messages a CPU second, {self.per_second:,.0f} a second"


class CrashRun(Model):
    """A run in which all processes were killed at once, several times."""

    kills: int
    own_exits: int
    """Unexpected exits after a kill; each time it was started again, as by a supervisor."""
    verdict: Verdict

    def __str__(self) -> str:
        v = self.verdict
        return f"lost {v.lost:,}, twice {v.twice:,}, altered {v.altered:,}"


class PeerResult(Model):
    """A peer's runs: one in each round that it completed, and one with crashes."""

    name: str
    title: str
    guarantee: str
    configuration: str
    removes_duplicates: bool
    runs: list[SteadyRun]
    crash: CrashRun | None

    @property
    def per_second(self) -> float:
        """Messages a second, the median."""
        return median(run.per_second for run in self.runs)

    @property
    def per_cpu_second(self) -> float:
        """Messages a CPU second, the median."""
        return median(run.per_cpu_second for run in self.runs)

    @property
    def cpu_micros(self) -> float:
        """CPU microseconds for a message, the median."""
        return median(1e6 / run.per_cpu_second for run in self.runs)

    @property
    def router_cpu_micros(self) -> float:
        """Of it those of our routers, the median."""
        return median(run.router_cpu_seconds / run.messages * 1e6 for run in self.runs)

    @property
    def peak_bytes(self) -> float:
        """Peak memory, the median."""
        return median(run.peak_bytes for run in self.runs)

    @property
    def is_in_order(self) -> bool:
        """True if each run wrote the messages of a partition in the order of its input."""
        return not any(run.verdict.reordered for run in self.runs)

    @property
    def other_cores(self) -> float:
        """Cores that other processes used meanwhile, the median."""
        return median(run.other_cpu_seconds / run.seconds for run in self.runs)


class Peers(Model):
    """All peers that completed a round, in the order of their runs, and all failures."""

    messages: int
    value_bytes: int
    repeat_rate: float
    partitions: int
    rounds: int
    java: str
    peers: list[PeerResult]
    failures: list[str]

    @property
    def ours(self) -> PeerResult | None:
        """This project, if it was measured."""
        return self.named("ours")

    @property
    def others(self) -> list[PeerResult]:
        """Those that ours is compared with: they remove duplicates. None without ours."""
        return [
            peer
            for peer in self.peers
            if self.ours and peer.removes_duplicates and peer.name != "ours"
        ]

    @property
    def is_short(self) -> bool:
        """True if a run is too short for fair figures: Java still compiles."""
        return self.messages < ENOUGH_MESSAGES

    def best_of(self, peers: list[PeerResult]) -> list[PeerResult]:
        """Return the fastest of some peers in a list; an empty list if there are none."""
        return sorted(peers, key=lambda peer: peer.per_cpu_second)[-1:]

    def named(self, name: str) -> PeerResult | None:
        """Return the peer of this name, if it was measured."""
        return next((peer for peer in self.peers if peer.name == name), None)


class UnkeyedPeers(Peers):
    """The same for an input without keys, whose copies of an id are in any partition."""
