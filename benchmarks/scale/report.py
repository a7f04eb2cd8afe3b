"""The tables and goals of the scale benchmark."""

from typing import Final

from benchmarks.harness.traffic import REPEAT_RATE, VALUE_BYTES
from benchmarks.scale.ids import FILL_REPEAT_RATE
from benchmarks.scale.result import (
    ENTRY_BYTES,
    GOAL_AGEING,
    GOAL_BYTES_PER_ID,
    GOAL_MEMORY_PER_ID,
    GOAL_SHARE,
    GOAL_START_SECONDS,
    Ageing,
    Filled,
    Scale,
    Start,
)
from benchmarks.tables import Goal, Table

_MIB: Final = 1 << 20
_STAGES: Final = ("consume", "identify", "lookup", "produce", "commit", "store")


def scale_tables(result: Scale) -> list[Table]:
    """What was measured."""
    tables = [_runs(result), _stages(result), _memory(result), _fills(result), _starts(result)]
    return [*tables, _ageing(result.ageing)] if result.ageing else tables


def scale_goals(result: Scale) -> list[Goal]:
    """Those that there are figures for."""
    small, large = result.smallest, result.largest
    ids = f"with {_millions(large.keys)} ids"
    bytes_per_id = large.bytes_per_id
    longest = max(
        start.reconciling_seconds
        for rung in result.rungs
        for start in (rung.start, rung.restart, rung.tail)
    )
    goals = [
        Goal(
            f"messages a CPU second, {ids} : with {_millions(small.keys)}",
            f"≥ {GOAL_SHARE:.0%}",
            f"{result.share:.0%}",
            result.share >= GOAL_SHARE,
        ),
        Goal(
            f"disk for an id of 16 B and its owner of 8 B, {ids}",
            f"≤ {GOAL_BYTES_PER_ID:.0f} B",
            f"{bytes_per_id:.1f} B",
            bytes_per_id <= GOAL_BYTES_PER_ID,
        ),
        _memory_goal(result),
        Goal(
            f"start until it reconciles, the longest, up to {_millions(large.keys)} ids",
            f"< {GOAL_START_SECONDS:.0f} s",
            f"{longest:.1f} s",
            longest < GOAL_START_SECONDS,
        ),
    ]
    if result.ageing:
        ageing = result.ageing
        over = ageing.aged.peak_bytes / ageing.max_bytes
        goals += [
            Goal(
                "CPU time an id takes more in a window that ages",
                f"< {GOAL_AGEING:.0%}",
                f"{ageing.cost:+.1%}",
                ageing.cost < GOAL_AGEING,
            ),
            Goal(
                "the store's directory while it ages, to maxBytes",
                "≤ 100%",
                f"{over:.0%}",
                over <= 1,
            ),
        ]
    return goals


def _memory_goal(result: Scale) -> Goal:
    base, per_id = result.memory_line()
    peak = max(rung.run.peak for rung in result.rungs)
    wanted = f"≤ {GOAL_MEMORY_PER_ID:.0f} B an id"
    reached = per_id <= GOAL_MEMORY_PER_ID
    limit = ""
    if result.limit_bytes:
        limit = f", peak {peak / _MIB:.0f} MiB of {result.limit_bytes / _MIB:.0f}"
        reached &= peak < result.limit_bytes
    return Goal(
        "memory flat but for the filter's 2 B an id",
        wanted,
        f"{base / _MIB:.0f} MiB + {per_id:.1f} B an id{limit}",
        reached,
    )


def _runs(result: Scale) -> Table:
    rows = [
        [
            _millions(rung.keys),
            f"{rung.run.per_cpu_second:,.0f}",
            f"{rung.run.per_cpu_second / result.smallest.run.per_cpu_second:.0%}",
            f"{rung.run.per_second:,.0f}",
            f"{rung.run.stages.get('lookup', 0.0):.2f}",
            f"{rung.bytes_per_id:.1f}",
            f"{rung.filled.write_amplification:.1f}",
        ]
        for rung in result.rungs
    ]
    under = (
        f"under a limit of {result.limit_bytes / _MIB:,.0f} MiB"
        if result.limit_bytes
        else "without a limit of memory"
    )
    return Table(
        f"A worker on a store of so many ids, {under}",
        (
            *("ids", "msgs/CPU s", "of the first", "msgs/s", "lookup, µs"),
            *("disk, B an id", "write amplification"),
        ),
        rows,
        f"Each time {result.messages:,} messages of {VALUE_BYTES} bytes that wait for it, the steady state between 10 "
        f"and 95 % of them. {REPEAT_RATE:.0%} are repeats, half of them of any message since the first rung. “Disk” is "
        "all that lies in the store's directory; “write amplification” is what the process writes to disk for each "
        f"{ENTRY_BYTES} bytes of id and owner, since the rung before; over all: {result.write_amplification:.1f}.",
    )


def _stages(result: Scale) -> Table:
    rows = [
        [
            _millions(rung.keys),
            *(f"{rung.run.stages.get(stage, 0.0):.2f}" for stage in _STAGES),
            f"{1e6 / rung.run.per_cpu_second:.2f}",
        ]
        for rung in result.rungs
    ]
    return Table(
        "Its stages, elapsed µs a message",
        ("ids", *_STAGES, "CPU µs, all"),
        rows,
    )


def _memory(result: Scale) -> Table:
    base, per_id = result.memory_line()
    rows = [
        [
            _millions(rung.keys),
            f"{rung.run.resident / _MIB:.0f}",
            f"{rung.run.anonymous / _MIB:.0f}",
            f"{rung.run.peak / _MIB:.0f}",
            f"{rung.run.group_peak / _MIB:.0f}" if rung.run.group_peak else "-",
        ]
        for rung in result.rungs
    ]
    return Table(
        "Its memory, MiB",
        ("ids", "resident", "anonymous", "peak", "control group, peak"),
        rows,
        f"Anonymous memory is {base / _MIB:.0f} MiB and {per_id:.2f} bytes for each id, of which the filter takes two "
        "(a line through all rungs). The control group counts the pages of files, too, which the kernel takes back: it "
        "comes up to its limit.",
    )


def _fills(result: Scale) -> Table:
    rows = [_fill_row(f"to {_millions(rung.keys)}", rung.filled) for rung in result.rungs]
    return Table(
        "What an id costs the store, µs",
        _FILL_COLUMNS,
        rows,
        f"The calls of the worker's loop without Kafka, {FILL_REPEAT_RATE:.1%} of the ids being repeats. "
        "CPU is that of the whole process, RocksDB's own threads included; lookup and write are the caller's share.",
    )


_FILL_COLUMNS: Final = (
    *("ids", "CPU", "lookup", "write", "ids/s"),
    *("longest write, ms", "written, MB", "generations"),
)


def _fill_row(title: str, filled: Filled) -> list[str]:
    return [
        title,
        f"{filled.cpu_micros:.2f}",
        f"{filled.lookup_micros:.2f}",
        f"{filled.write_micros:.2f}",
        f"{filled.ids / filled.seconds:,.0f}",
        f"{filled.longest_write_seconds * 1e3:.0f}",
        f"{filled.written / 1e6:,.0f}",
        f"{filled.generations}",
    ]


def _starts(result: Scale) -> Table:
    rows = []
    for rung in result.rungs:
        rows += [
            [f"{_millions(rung.keys)}, on a closed store", *_start_row(rung.start)],
            [f"{_millions(rung.keys)}, after SIGKILL", *_start_row(rung.restart)],
            [f"{_millions(rung.keys)}, a tail to learn", *_start_row(rung.tail)],
        ]
    if result.rebuild:
        rows.append(["without a store", *_start_row(result.rebuild)])
    return Table(
        "From the start of a worker's process",
        (
            *("ids", "until it reconciles, s", "until it is ready, s", "CPU s"),
            *("records reconciled", "records/s"),
        ),
        rows,
        "“A tail to learn”: on the store as it was before the messages, all of which are read from the output topic.",
    )


def _start_row(start: Start) -> list[str]:
    return [
        f"{start.reconciling_seconds:.1f}",
        f"{start.ready_seconds:.1f}",
        f"{start.cpu_seconds:.1f}",
        f"{start.records:,}",
        f"{start.per_second:,.0f}" if start.records else "-",
    ]


def _ageing(ageing: Ageing) -> Table:
    aged = ageing.aged
    return Table(
        f"Ageing, µs an id: {_millions(aged.ids)} ids more in a window of {ageing.max_bytes / 1e6:,.0f} MB",
        _FILL_COLUMNS,
        [
            _fill_row("before, nothing aged", ageing.unaged),
            _fill_row(f"aged out {aged.drops} times", aged),
        ],
        f"The store took at most {aged.peak_bytes / 1e6:,.0f} MB, seen after each transaction, and "
        f"{aged.bytes / 1e6:,.0f} MB in the end.",
    )


def _millions(keys: int) -> str:
    return f"{keys / 1e6:.3g} M"
