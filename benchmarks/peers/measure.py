"""Runs of the peers in turn, each with a new output topic and no state.

All have the same input. After each run all of the output is read and judged. In a crash run all processes of the
peer are killed three times on the way, wherever in its cycle of commits it is, and started again at once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import numpy as np
from confluent_kafka import KafkaException

from benchmarks.harness.measure import CpuMeter
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.steady import steady_span
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import REPEAT_RATE, VALUE_BYTES
from benchmarks.peers.install import java_version
from benchmarks.peers.ours import BARE
from benchmarks.peers.peer import PARTITIONS, Peer
from benchmarks.peers.processes import TreeMeter
from benchmarks.peers.results import CrashRun, PeerResult, Peers, SteadyRun, UnkeyedPeers
from benchmarks.peers.routers import RouterMeter
from benchmarks.peers.traffic import Input, send_input
from benchmarks.peers.turn import Settled, Written, follow, turn_of, work_until

KILLS_AT: Final = (0.22, 0.45, 0.67)
"""Shares of the output after which a crash run kills."""

Report = Callable[[str], None]
_T = TypeVar("_T")


def measure_peers(
    testbed: Testbed,
    peers: Sequence[Peer],
    *,
    messages: int,
    rounds: int,
    crash: bool,
    report: Report,
    done: Report,
    keyed: bool = True,
) -> Peers:
    """Measure each peer in each round, and then its crashes.

    A peer that fails does not stop the others: the result has the reason. `report` takes the current step, `done`
    the result of each step. Raises BenchmarkFailed if no peer completes a run.
    """
    report(f"sending {messages:,} messages")
    source = send_input(testbed, messages, keyed=keyed)
    attempts = _Attempts(report, done)
    attempts.make("warming up the broker", partial(_steady_run, testbed, BARE, source))
    runs: dict[str, list[SteadyRun]] = {peer.name: [] for peer in peers}
    for number in range(rounds):
        # Each round begins with another, so that what a turn leaves behind burdens none in particular.
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            what = f"round {number + 1} of {rounds}: {peer.title}"
            if run := attempts.make(what, partial(_steady_run, testbed, peer, source)):
                runs[peer.name].append(run)
    crashes: dict[str, CrashRun | None] = {}
    for peer in peers if crash else ():
        if peer.removes_duplicates:
            what = f"{len(KILLS_AT)} kills: {peer.title}"
            crashes[peer.name] = attempts.make(what, partial(_crash_run, testbed, peer, source))
    through = [_result(peer, runs[peer.name], crashes.get(peer.name)) for peer in peers]
    if not any(result.runs for result in through):
        raise BenchmarkFailed("\n".join(attempts.failures))
    return (Peers if keyed else UnkeyedPeers)(
        messages=messages,
        value_bytes=VALUE_BYTES,
        repeat_rate=REPEAT_RATE,
        partitions=PARTITIONS,
        rounds=rounds,
        java=java_version(),
        peers=[result for result in through if result.runs],
        failures=attempts.failures,
    )


class _Attempts:
    """Continues when an attempt fails, and keeps the reasons."""

    def __init__(self, report: Report, done: Report) -> None:
        self._report, self._done = report, done
        self.failures: list[str] = []

    def make(self, what: str, act: Callable[[], _T]) -> _T | None:
        """Return the result of `act`, or None if it fails."""
        self._report(what)
        try:
            result = act()
        except (BenchmarkFailed, KafkaException, TimeoutError) as failed:
            self.failures.append(f"{what}: {failed}")
            self._done(self.failures[-1])
            return None
        self._done(f"{what}: {result}")
        return result


def _result(peer: Peer, runs: list[SteadyRun], crash: CrashRun | None) -> PeerResult:
    return PeerResult(
        name=peer.name,
        title=peer.title,
        guarantee=peer.guarantee,
        configuration=peer.configuration,
        removes_duplicates=peer.removes_duplicates,
        runs=runs,
        crash=crash,
    )


def _steady_run(testbed: Testbed, peer: Peer, source: Input) -> SteadyRun:
    """Measure a run. Raises BenchmarkFailed if a message is lost, twice or altered."""
    with turn_of(testbed, peer, source) as turn:
        settled = Settled(turn)
        with (
            turn.start() as processes,
            TreeMeter(processes.pids) as tree,
            CpuMeter(broker=testbed.broker_pid) as rest,
            RouterMeter(processes.pids[: peer.router_processes], turn.repartition_topic) as routers,
        ):
            if not follow(turn, processes, settled):
                raise BenchmarkFailed(turn.explain("has exited"))
        output = settled.output or turn.judge()
        verdict = output.verdict
        if verdict.lost or verdict.twice or verdict.altered:
            raise BenchmarkFailed(turn.explain(f"did not do what it must ({verdict})"))
    span = steady_span([output.appended])
    first, last = np.searchsorted(output.appended, span).tolist()
    cpu, broker = tree.used(*span), rest.used("broker", *span)
    messages = len(source.sent.numbers) * (last - first) / len(output.appended)
    routing = 0.0
    if peer.router_processes:
        routing = routers.cpu_seconds_per_message * messages
    return SteadyRun(
        messages=messages,
        seconds=span[1] - span[0],
        cpu_seconds=cpu - (routers.used(*span) if routing else 0.0) + routing,
        broker_cpu_seconds=broker,
        other_cpu_seconds=rest.used("machine", *span) - cpu - broker,
        peak_bytes=tree.peak_bytes,
        router_cpu_seconds=routing,
        verdict=verdict,
    )


def _crash_run(testbed: Testbed, peer: Peer, source: Input) -> CrashRun:
    """Kill a peer on the way. Faults of the output are in the verdict.

    Raises BenchmarkFailed if it does not finish.
    """
    with turn_of(testbed, peer, source) as turn:
        own_exits = sum(
            work_until(turn, Written(turn, share * turn.expected), then_kill=True)
            for share in KILLS_AT
        )
        own_exits += work_until(turn, Settled(turn), then_kill=False)
        verdict = turn.judge().verdict
    return CrashRun(kills=len(KILLS_AT), own_exits=own_exits, verdict=verdict)
