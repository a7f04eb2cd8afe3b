"""The results as tables, and as what was reached of the goals: one form for the terminal and for the page."""

from typing import Final

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.aggregate_report import aggregate_tables
from benchmarks.cases import memory, reconcile
from benchmarks.cases.ageing import Ageing
from benchmarks.cases.aggregate import Aggregated
from benchmarks.cases.cores import CoreUse
from benchmarks.cases.extras import Extras
from benchmarks.cases.filters import Filters
from benchmarks.cases.inverse_bloom import FixedTables
from benchmarks.cases.latency import Latency
from benchmarks.cases.memory import MemoryUse
from benchmarks.cases.reconcile import Reconcile
from benchmarks.cases.throughput import Throughput
from benchmarks.filters_report import filters_goals, filters_tables
from benchmarks.harness.machine import Machine
from benchmarks.inverse_bloom_report import inverse_bloom_goals, inverse_bloom_tables
from benchmarks.peers.report import peers_goals, peers_tables
from benchmarks.peers.results import Peers
from benchmarks.recovery.failover import Failover
from benchmarks.recovery.local import Recovery
from benchmarks.recovery_report import (
    failover_goals,
    failover_tables,
    recovery_goals,
    recovery_tables,
)
from benchmarks.scale.report import scale_goals, scale_tables
from benchmarks.scale.result import Scale
from benchmarks.tables import Goal, Table
from benchmarks.worker_report import (
    ageing_goals,
    ageing_tables,
    cores_goals,
    cores_tables,
    extras_goals,
    extras_tables,
    latency_goals,
    latency_tables,
    throughput_goals,
    throughput_tables,
)

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30

Result = (
    Throughput
    | CoreUse
    | Ageing
    | Extras
    | Latency
    | MemoryUse
    | Reconcile
    | Recovery
    | Failover
    | Peers
    | Scale
    | Filters
    | FixedTables
    | Aggregated
)


def tables_of(result: Result) -> list[Table]:  # noqa: C901, PLR0911, PLR0912 (one for each)
    """The tables of any result."""
    match result:
        case Throughput():
            return throughput_tables(result)
        case CoreUse():
            return cores_tables(result)
        case Ageing():
            return ageing_tables(result)
        case Extras():
            return extras_tables(result)
        case Latency():
            return latency_tables(result)
        case MemoryUse():
            return [_memory(result)]
        case Reconcile():
            return [_reconcile(result)]
        case Recovery():
            return recovery_tables(result)
        case Failover():
            return failover_tables(result)
        case Peers():
            return peers_tables(result)
        case Scale():
            return scale_tables(result)
        case Filters():
            return filters_tables(result)
        case FixedTables():
            return inverse_bloom_tables(result)
        case Aggregated():
            return aggregate_tables(result)


def goals_of(result: Result) -> list[Goal]:  # noqa: C901, PLR0911, PLR0912 (one for each)
    """The goals that a result speaks to."""
    match result:
        case Throughput():
            return throughput_goals(result)
        case CoreUse():
            return cores_goals(result)
        case Ageing():
            return ageing_goals(result)
        case Extras():
            return extras_goals(result)
        case Latency():
            return latency_goals(result)
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
        case Peers():
            return peers_goals(result)
        case Scale():
            return scale_goals(result)
        case Filters():
            return filters_goals(result)
        case FixedTables():
            return inverse_bloom_goals(result)
        case Aggregated():
            return []


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
