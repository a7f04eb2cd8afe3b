"""Results as tests need them."""

from benchmarks.harness.check import Verdict
from benchmarks.peers.results import CrashRun, PeerResult, Peers, SteadyRun

CLEAN = Verdict(expected=95, found=95, lost=0, twice=0, altered=0, reordered=0)


def run(
    *,
    per_cpu_second: float = 1_000,
    peak_mib: int = 100,
    reordered: int = 0,
    other: float = 0,
    router: float = 0,
) -> SteadyRun:
    """A run; `other` and `router` are CPU seconds."""
    return SteadyRun(
        messages=per_cpu_second * 10,
        seconds=5,
        cpu_seconds=10,
        broker_cpu_seconds=1,
        other_cpu_seconds=other,
        peak_bytes=peak_mib << 20,
        router_cpu_seconds=router,
        verdict=CLEAN.model_copy(update={"reordered": reordered}),
    )


def crash(*, lost: int = 0, twice: int = 0) -> CrashRun:
    verdict = CLEAN.model_copy(update={"lost": lost, "twice": twice})
    return CrashRun(kills=3, own_exits=0, verdict=verdict)


def peer(
    name: str,
    *runs: SteadyRun,
    crash: CrashRun | None = None,
    removes_duplicates: bool = True,
) -> PeerResult:
    return PeerResult(
        name=name,
        title=name.capitalize(),
        guarantee="exactly once",
        configuration="as it comes",
        removes_duplicates=removes_duplicates,
        runs=list(runs),
        crash=crash,
    )


def peers(*results: PeerResult, failures: tuple[str, ...] = ()) -> Peers:
    return Peers(
        messages=100,
        value_bytes=512,
        repeat_rate=0.05,
        partitions=2,
        rounds=3,
        java="openjdk 17",
        peers=list(results),
        failures=list(failures),
    )
