"""Tables, goals and plot of what chunk filters save."""

from statistics import median
from typing import Final

import numpy as np
from matplotlib.figure import Figure

from benchmarks.cases import filters
from benchmarks.cases.filters import Filters, Skipping
from benchmarks.cases.filters_spark import OURS, THEIRS
from benchmarks.tables import Goal, Table

GOAL_SAVED: Final = 0.80
GOAL_SPEEDUP: Final = 4.0
GOAL_CPU: Final = 1.3

_MB: Final = 1e6


def filters_tables(result: Filters) -> list[Table]:
    """False matches, skipping, gaps, and Spark."""
    return [_rates(result), _skipping(result), _gaps(result), _spark(result)]


def filters_goals(result: Filters) -> list[Goal]:
    """What was wanted of each. Skipping is judged by chunks of the middle size."""
    goals = [
        Goal(
            f"false matches, {rate.values} values in {rate.size_bytes} bytes",
            f"≤ {rate.published:.0%}",
            f"{rate.measured:.1%}",
            rate.measured <= rate.published,
        )
        for rate in result.rates
    ]
    usual = result.sizes[1]
    what = f"1 chunk in {filters.VALUES}, of {usual.chunk_records:,} records"
    cpu = result.cpu_seconds(OURS) / result.cpu_seconds(THEIRS)
    return [
        *goals,
        Goal(
            f"{what}: bytes not fetched",
            f"≥ {GOAL_SAVED:.0%}",
            f"{usual.saved:.1%}",
            usual.saved >= GOAL_SAVED,
        ),
        Goal(
            f"{what}: times as fast",
            f"≥ {GOAL_SPEEDUP:g}",
            f"{usual.speedup:.1f}",
            usual.speedup >= GOAL_SPEEDUP,
        ),
        Goal(
            "CPU time of an unfiltered read, of Spark's own source",
            f"≤ {GOAL_CPU:g}",
            f"{cpu:.2f}",
            cpu <= GOAL_CPU,
        ),
    ]


def plot_filters(figure: Figure, result: Filters) -> None:
    """Bytes and time for each size of chunks, and what gaps cost."""
    left, middle, right = figure.subplots(1, 3)
    labels = [f"{size.chunk_records:,}" for size in result.sizes]
    places = np.arange(len(labels))
    for axes, title, figures in (
        (left, "MB fetched", [_megabytes(size) for size in result.sizes]),
        (middle, "seconds", [_seconds(size) for size in result.sizes]),
    ):
        for side, (label, color) in enumerate((("everything", "#8a8f98"), ("skipping", "#2a6fdb"))):
            heights = [each[side] for each in figures]
            axes.bar(places + (side - 0.5) * 0.4, heights, 0.4, label=label, color=color)
        axes.set_xticks(places, labels)
        axes.set_title(title)
        axes.set_xlabel("records a chunk")
    left.legend(frameon=False)
    offsets = [gap.offsets for gap in result.gaps]
    right.plot(offsets, [gap.fetched_ms for gap in result.gaps], label="fetched", color="#8a8f98")
    right.plot(offsets, [gap.skipped_ms for gap in result.gaps], label="skipped", color="#2a6fdb")
    right.set_xscale("log")
    right.set_ylim(bottom=0)
    right.set_title("ms a gap")
    right.set_xlabel("offsets in it")
    right.legend(frameon=False)


def _rates(result: Filters) -> Table:
    return Table(
        "False matches of a filter",
        ("values and bytes", "published (RabbitMQ)", "expected", "measured"),
        [
            [
                f"{r.values} in {r.size_bytes}",
                f"{r.published:.0%}",
                f"{r.expected:.2%}",
                f"{r.measured:.2%}",
            ]
            for r in result.rates
        ],
    )


def _skipping(result: Filters) -> Table:
    return Table(
        f"The plain reader: {result.messages:,} records of 512 bytes, one chunk in {filters.VALUES} matches",
        (
            "records a chunk",
            "MB, everything",
            "MB, skipping",
            "not fetched",
            "s, everything",
            "s, skipping",
            "times",
        ),
        [_row(size) for size in result.sizes],
        "Medians. “Everything” is read by the same reader without skipping, and filtered as it comes. Bytes are those "
        "that the client has received, filters included.",
    )


def _row(size: Skipping) -> list[str]:
    return [
        f"{size.chunk_records:,}",
        *(f"{each:.1f}" for each in _megabytes(size)),
        f"{size.saved:.1%}",
        *(f"{each:.2f}" for each in _seconds(size)),
        f"{size.speedup:.1f}",
    ]


def _megabytes(size: Skipping) -> tuple[float, ...]:
    """Of everything, and skipping."""
    both = (size.everything, size.skipping)
    return tuple(median(read.fetched_bytes for read in reads) / _MB for reads in both)


def _seconds(size: Skipping) -> tuple[float, ...]:
    both = (size.everything, size.skipping)
    return tuple(median(read.seconds for read in reads) for reads in both)


def _gaps(result: Filters) -> Table:
    return Table(
        "Gaps between two spans that match",
        ("offsets", "ms, fetched", "ms, skipped"),
        [[f"{g.offsets:,}", f"{g.fetched_ms:.1f}", f"{g.skipped_ms:.1f}"] for g in result.gaps],
        "With the span of 500 records before it. A gap is a batch of its own here; one within a batch comes with it "
        "anyway, so that gapOffsets is not 0 by default.",
    )


def _spark(result: Filters) -> Table:
    rows = []
    for what in dict.fromkeys(run.what for run in result.spark):
        runs = [run for run in result.spark if run.what == what]
        cpu = median(run.cpu_seconds for run in runs)
        rows.append(
            [
                what,
                f"{runs[0].records:,}",
                f"{median(r.seconds for r in runs):.2f}",
                f"{cpu:.2f}",
                f"{runs[0].records / cpu:,.0f}",
            ]
        )
    return Table(
        "Spark",
        ("read", "rows", "s", "CPU s", "rows/CPU s"),
        rows,
        "All columns are used. CPU time of the JVM and of Python's workers, after a first read that warms up.",
    )
