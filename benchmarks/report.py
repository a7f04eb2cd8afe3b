"""The results as tables, and as what was reached of the goals: one form for the terminal and for the page."""

from typing import Final

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks import latency, memory, reconcile, throughput
from benchmarks.latency import Latency, LatencyRun
from benchmarks.machine import Machine
from benchmarks.memory import MemoryUse
from benchmarks.reconcile import Reconcile
from benchmarks.recovery import Recovery
from benchmarks.recovery_report import (
    failover_goals,
    failover_tables,
    recovery_goals,
    recovery_tables,
)
from benchmarks.rungs import Failover
from benchmarks.tables import Goal, Table
from benchmarks.throughput import LoopRun, Throughput

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30

Result = Throughput | Latency | MemoryUse | Reconcile | Recovery | Failover


def tables_of(result: Result) -> list[Table]:
    """The tables of any result."""
    match result:
        case Throughput():
            return [_rounds(result), _stages(result)]
        case Latency():
            return [_latency(result), _latency_cost(result)]
        case MemoryUse():
            return [_memory(result)]
        case Reconcile():
            return [_reconcile(result)]
        case Recovery():
            return recovery_tables(result)
        case Failover():
            return failover_tables(result)


def goals_of(result: Result) -> list[Goal]:
    """The goals that a result speaks to."""
    match result:
        case Throughput():
            share = result.cpu_share
            wanted = f"≥ {throughput.GOAL_SHARE:.0%}"
            reached = share >= throughput.GOAL_SHARE
            return [
                Goal("messages a CPU second, worker : bare loop", wanted, f"{share:.0%}", reached)
            ]
        case Latency():
            return [
                _at_most("latency p50", latency.GOAL_P50_MS, result.default.quantile(50.0)),
                _at_most("latency p99", latency.GOAL_P99_MS, result.default.quantile(99.0)),
            ]
        case MemoryUse():
            wanted, measured = f"≤ {memory.GOAL_BYTES // _MIB} MiB", f"{result.peak / _MIB:.0f} MiB"
            what = f"peak resident memory, up to {result.growing[-1].keys / 1e6:.1f} M keys"
            return [Goal(what, wanted, measured, result.peak <= memory.GOAL_BYTES)]
        case Reconcile():
            rate = result.per_second("Tail")
            reached = rate >= reconcile.GOAL_PER_SECOND
            what = f"reconcile of a tail of {result.records:,} records"
            return [Goal(what, f"≥ {reconcile.GOAL_PER_SECOND:,}/s", f"{rate:,.0f}/s", reached)]
        case Recovery():
            return recovery_goals(result)
        case Failover():
            return failover_goals(result)


def machine_text(machine: Machine) -> str:
    """The machine in one sentence."""
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    return (
        f"{machine.measured:%Y-%m-%d %H:%M} UTC on {machine.cpu}, {machine.cores} cores, "
        f"{machine.memory_bytes / _GIB:.0f} GiB, {machine.kernel}; {machine.python}, {versions}; "
        f"load average before: {machine.load_before:.2f}"
    )


def show(console: Console, machine: Machine, result: Result) -> None:
    """Print a result."""
    for table in tables_of(result):
        shown = RichTable(title=table.title, title_justify="left", caption=table.note or None)
        for position, column in enumerate(table.columns):
            shown.add_column(column, justify="right" if position else "left")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    for goal in goals_of(result):
        word = "[green]reached[/]" if goal.reached else "[red]missed[/]"
        console.print(f"{goal.what}: {goal.measured}, wanted {goal.wanted}: {word}")
    console.print(f"[dim]{machine_text(machine)}[/]")


def markdown(result: Result) -> str:
    """A result's tables in Markdown."""
    blocks = []
    for table in tables_of(result):
        rule = ["---", *("---:" for _ in table.columns[1:])]
        lines = ["| " + " | ".join(row) + " |" for row in (table.columns, rule, *table.rows)]
        blocks += [f"**{table.title}**", "\n".join(lines)]
        if table.note:
            blocks.append(table.note)
    return "\n\n".join(blocks)


def _at_most(what: str, wanted_ms: float, measured_ms: float) -> Goal:
    what = f"{what} at default settings"
    return Goal(what, f"≤ {wanted_ms:.0f} ms", f"{measured_ms:.1f} ms", measured_ms <= wanted_ms)


def _rounds(result: Throughput) -> Table:
    rows = []
    few = result.messages < throughput.ENOUGH_MESSAGES
    caution = " Too few messages for a fair share: see throughput.py." if few else ""
    for number, pair in enumerate(result.rounds, start=1):
        rows += [
            [f"{number} bare", *_speed(pair.bare), ""],
            [f"{number} worker", *_speed(pair.worker), f"{pair.cpu_share:.0%}"],
        ]
    return Table(
        f"Throughput: {result.messages:,} messages, steady state",
        ("round", "msgs/CPU s", "msgs/s", "broker cores", "other cores", "peak MiB", "share"),
        rows,
        f"Medians of {len(result.rounds)} rounds: {result.cpu_share:.0%} of the bare loop's messages a CPU "
        "second. Every worker's output was checked: lost 0, twice 0, altered 0, in order. “Other cores” is what "
        f"the rest of the machine used, the benchmark itself included.{caution}",
    )


def _speed(run: LoopRun) -> list[str]:
    return [
        f"{run.per_cpu_second:,.0f}",
        f"{run.per_second:,.0f}",
        f"{run.broker_cpu_seconds / run.seconds:.2f}",
        f"{run.other_cpu_seconds / run.seconds:.2f}",
        f"{run.peak_bytes / _MIB:.0f}",
    ]


def _stages(result: Throughput) -> Table:
    stages = sorted(result.stages.items(), key=lambda stage: -stage[1])
    return Table(
        "The worker's loop by stage",
        ("stage", "µs a message"),
        [[name, f"{micros:.2f}"] for name, micros in stages],
        "Elapsed time, medians: waiting for data is in “consume”, waiting for room in the queue to the broker in "
        "“produce”, waiting for acknowledgements in “commit”.",
    )


def _latency(result: Latency) -> Table:
    percents = (50.0, 99.0, 99.9, 100.0)
    rows = [
        [
            _setting(run),
            *(f"{run.quantile(percent):.1f}" for percent in percents),
        ]
        for run in result.runs
    ]
    return Table(
        f"End-to-end latency at {result.rate:,} messages/s, ms",
        ("commit interval", "p50", "p99", "p99.9", "max"),
        rows,
        f"From the call that sends a message to its receipt by a read_committed consumer; {result.seconds:.0f} s each.",
    )


def _latency_cost(result: Latency) -> Table:
    rows = [
        [
            _setting(run),
            f"{run.transactions_per_second:.1f}",
            f"{run.worker_cores:.2f}",
            f"{run.broker_cores:.2f}",
            f"{run.pace.cpu_seconds / run.pace.seconds:.2f}",
            f"{run.receiver_cores:.2f}",
            f"{run.pace.late_p99_ms:.1f}",
        ]
        for run in result.runs
    ]
    return Table(
        "What that took",
        (
            *("commit interval", "commits/s", "worker", "broker", "producer", "receiver"),
            "sent late p99, ms",
        ),
        rows,
        "CPU seconds a second of each process. A producer that sends late, because the processors are busy, makes "
        "latency look better than it is.",
    )


def _setting(run: LatencyRun) -> str:
    if run.commit_interval_ms is None:
        return "without a worker"
    is_default = run.commit_interval_ms == latency.DEFAULT_INTERVAL_MS
    return f"{run.commit_interval_ms} ms" + (" (default)" if is_default else "")


def _memory(result: MemoryUse) -> Table:
    runs = [*result.growing, *result.backlogs]
    rows = [
        [
            run.what,
            f"{run.messages:,}",
            f"{run.keys:,}",
            *(
                f"{size / _MIB:.0f}"
                for size in (
                    run.working,
                    run.working_anonymous,
                    run.idle,
                    run.idle_anonymous,
                    run.peak,
                )
            ),
        ]
        for run in runs
    ]
    return Table(
        "Resident memory of a worker, MiB",
        (
            *("worker", "messages", "keys", "at work", "anonymous"),
            *("at rest", "anonymous", "peak"),
        ),
        rows,
    )


def _reconcile(result: Reconcile) -> Table:
    rows = [
        [
            f"{run.kind} ({run.reason})",
            f"{run.per_second:,.0f}",
            f"{run.seconds:.2f}",
            f"{run.ready_seconds:.2f}",
            f"{run.cpu_seconds:.2f}",
        ]
        for kind in reconcile.KINDS
        for run in result.of(kind)
    ]
    return Table(
        f"Reconcile of {result.records:,} records",
        ("start", "records/s", "seconds", "start to ready, s", "CPU s until ready"),
        rows,
    )
