"""The peers as tables, and what was reached of the goals."""

from typing import Final

from benchmarks.peers.results import PeerResult, Peers
from benchmarks.tables import Goal, Table

GOAL_BEST: Final = 2.5
GOAL_QUIX: Final = 4.5
GOAL_MEMORY: Final = 1 / 3
ENOUGH_MESSAGES: Final = 1_000_000

_MIB: Final = 1 << 20
_OURS: Final = "ours"
_FLINK: Final = "flink"
_QUIX: Final = ("quix", "quix-bloom")


def peers_tables(result: Peers) -> list[Table]:
    """What was measured, and how each peer was set up."""
    return [_figures(result), _configurations(result)]


def peers_goals(result: Peers) -> list[Goal]:
    """Those that what was measured speaks to: with some peers left out there are fewer."""
    ours = result.named(_OURS)
    if ours is None:
        return []
    goals = []
    others = [peer for peer in result.peers if peer.removes_duplicates and peer is not ours]
    if others:
        best = max(others, key=_per_cpu_second)
        goals.append(_at_least(f"the best peer ({best.title})", ours, best, GOAL_BEST))
    if quix := [peer for peer in others if peer.name in _QUIX]:
        best = max(quix, key=_per_cpu_second)
        goals.append(_at_least(f"Quix Streams ({best.title})", ours, best, GOAL_QUIX))
    if flink := result.named(_FLINK):
        share = ours.peak_bytes / flink.peak_bytes
        goals.append(
            Goal(
                f"peak memory, {ours.title} : {flink.title}",
                "< 1/3",
                f"{share:.2f}{_short_of(share, GOAL_MEMORY, share < GOAL_MEMORY)}",
                share < GOAL_MEMORY,
            )
        )
    if ours.crash:
        verdict = ours.crash.verdict
        wrong = (verdict.lost, verdict.twice, verdict.altered)
        goals.append(
            Goal(
                f"lost, twice, altered after SIGKILL, {ours.crash.kills} times",
                "0, 0, 0",
                ", ".join(f"{each:,}" for each in wrong),
                not any(wrong),
            )
        )
    return goals


def _per_cpu_second(peer: PeerResult) -> float:
    return peer.per_cpu_second


def _at_least(what: str, ours: PeerResult, other: PeerResult, wanted: float) -> Goal:
    times = ours.per_cpu_second / other.per_cpu_second
    return Goal(
        f"messages a CPU second, ours : {what}",
        f"≥ {wanted:g}",
        f"{times:.2f}{_short_of(times, wanted, times >= wanted)}",
        times >= wanted,
    )


def _short_of(measured: float, wanted: float, reached: bool) -> str:
    """By how much a goal is missed, if it is."""
    return "" if reached else f", {abs(measured / wanted - 1):.0%} off"


def _figures(result: Peers) -> Table:
    ours = result.named(_OURS)
    few = result.messages < ENOUGH_MESSAGES
    caution = " Too few messages for fair figures: Java was still compiling." if few else ""
    failures = [failure.splitlines()[0] for failure in result.failures]
    return Table(
        f"Peers: {result.messages:,} messages of {result.value_bytes} bytes, {result.repeat_rate:.0%} repeats, "
        f"{result.partitions} partitions, steady state",
        (
            *(
                "system",
                "msgs/CPU s",
                "of rounds",
                "ours : it",
                "msgs/s",
                "peak MiB",
                "other cores",
            ),
            *("guarantee", "in order", "after kills: lost", "twice", "altered"),
        ),
        [
            [
                peer.title,
                *_rates(peer),
                f"{ours.per_cpu_second / peer.per_cpu_second:.2f}" if ours else "",
                f"{peer.per_second:,.0f}",
                f"{peer.peak_bytes / _MIB:,.0f}",
                f"{peer.other_cores:.2f}",
                peer.guarantee,
                "yes" if peer.is_in_order else "no",
                *_after_kills(peer),
            ]
            for peer in result.peers
        ],
        f"Medians of {result.rounds} rounds; messages are those read. CPU seconds are of all processes of a system "
        "without the broker, memory is their resident memory together. “Other cores” is what the rest of the machine "
        "used beside the system and the broker, the benchmark itself included. Without kills none lost, doubled or "
        "altered a message. “In order” is whether each partition of the output has its messages in the order of the "
        f"input.{caution}" + (f" Failed: {'; '.join(failures)}." if failures else ""),
    )


def _rates(peer: PeerResult) -> list[str]:
    """The median, and the lowest and highest of the rounds."""
    rates = [run.per_cpu_second for run in peer.runs]
    return [f"{peer.per_cpu_second:,.0f}", f"{min(rates):,.0f} to {max(rates):,.0f}"]


def _after_kills(peer: PeerResult) -> list[str]:
    if peer.crash is None:
        return ["", "", ""]
    verdict = peer.crash.verdict
    return [f"{each:,}" for each in (verdict.lost, verdict.twice, verdict.altered)]


def _configurations(result: Peers) -> Table:
    return Table(
        "How they were set up",
        ("system", "configuration"),
        [[peer.title, peer.configuration] for peer in result.peers],
        f"Java is {result.java}. The reasons are in `benchmarks/peers/`, beside each setting. Again: `make bench-peers "
        f'ARGS="--messages {result.messages} --rounds {result.rounds}"`.',
    )
