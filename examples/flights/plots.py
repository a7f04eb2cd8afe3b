"""The plots of the demo's page, as SVG text."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from dedupe_pipeline.jobs.audit import plots
from dedupe_pipeline.jobs.audit.result import Bin, Distribution
from dedupe_pipeline.pages.plots import CLEAN, GRID, INK, RAW, REPEATS, plot, svg
from examples.flights.outcome import Recovery, Sample, Timeline

_BINS_PER_DECADE = 5
_SMOOTHED_SECONDS = (
    1.0  # records arrive all the time, but a transaction under load commits many at once
)
_STEPS_A_SECOND = 10

Numbers = NDArray[np.float64]


def rates(timeline: Timeline, recovery: Recovery) -> str:
    """Plot the records sent and produced per second, with the kill and the recovery."""
    with plot("records per second") as (figure, axes):
        for name, colour, (seconds, a_second) in (
            ("sent to the input topic", RAW, rate([timeline.sent])),
            (
                "in the clean topic",
                CLEAN,
                rate([produced(samples) for samples in timeline.samples]),
            ),
        ):
            axes.plot(seconds, a_second, color=colour, linewidth=1.6, label=name)
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        axes.legend(loc="upper left", ncols=2, bbox_to_anchor=(0, 1.3))
        _mark(axes, recovery)
        return svg(figure, "rates")


def windows(timeline: Timeline, recovery: Recovery) -> str:
    """Plot the age of the oldest id in each store, with a line for each process."""
    with plot("oldest id, seconds") as (figure, axes):
        for partition, samples in enumerate(timeline.samples):
            killed = partition == recovery.partition
            for _, each in groupby(samples, lambda sample: sample.process):
                seen = [(sample.at_seconds, sample.window_seconds) for sample in each]
                axes.plot(
                    *zip(*seen, strict=True),
                    color=REPEATS if killed else CLEAN,
                    linewidth=2 if killed else 1,
                    label=f"partition {partition} (worker killed)"
                    if killed
                    else "other partitions",
                )
        lines = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        axes.legend(lines.values(), lines, loc="upper left", ncols=2, bbox_to_anchor=(0, 1.3))
        _mark(axes, recovery)
        return svg(figure, "windows")


def ages(ages_ms: Mapping[int, int]) -> str:
    """Plot duplicates by age, on a log axis."""
    return plots.histogram(distribution(ages_ms), "age: time since the original record")


def distribution(ages_ms: Mapping[int, int]) -> Distribution:
    """Return bins and quantiles of ages, from the number of duplicates by age."""
    edges = [0.0, 1.0]
    while edges[-1] <= max(ages_ms, default=0):
        edges.append(10 ** ((len(edges) - 1) / _BINS_PER_DECADE))
    bins: Counter[int] = Counter()
    for age, records in ages_ms.items():
        bins[bisect_right(edges, max(age, 0))] += records
    return Distribution(
        unit="ms",
        bins=tuple(
            Bin(low=edges[high - 1], high=edges[high], records=bins[high]) for high in sorted(bins)
        ),
        p50=_quantile(ages_ms, 0.5),
        p90=_quantile(ages_ms, 0.9),
        p99=_quantile(ages_ms, 0.99),
        maximum=_quantile(ages_ms, 1.0),
    )


def produced(samples: Sequence[Sample]) -> list[tuple[float, int]]:
    """Return moments, and how many records a partition had produced by then."""
    return [(sample.at_seconds, sample.produced) for sample in samples]


def rate(counters: Sequence[Sequence[tuple[float, int]]]) -> tuple[Numbers, Numbers]:
    """Return moments, and the sum of the counters' rates.

    Each rate is an average over one second. A counter is a list of moments and counts; it is interpolated
    linearly between them.
    """
    seen = [np.array(counter, np.float64) for counter in counters if counter]
    end = max(float(counter[-1, 0]) for counter in seen)
    moments = np.linspace(0, end, max(2, int(end * _STEPS_A_SECOND)))
    before = np.maximum(moments - _SMOOTHED_SECONDS / 2, 0)
    after = np.minimum(moments + _SMOOTHED_SECONDS / 2, end)
    grown = sum(
        np.interp(after, counter[:, 0], counter[:, 1])
        - np.interp(before, counter[:, 0], counter[:, 1])
        for counter in seen
    )
    return moments, grown / (after - before)


def _mark(axes: Axes, recovery: Recovery) -> None:
    """Mark the outage, from the kill to the first record of the next process."""
    killed = recovery.killed_at_seconds
    ready, output = killed + recovery.ready_seconds, killed + recovery.output_seconds
    axes.axvspan(killed, output, color=GRID, alpha=0.5, linewidth=0)
    axes.axvline(killed, color=REPEATS, linewidth=1.2)
    axes.axvline(ready, color=INK, linewidth=1, linestyle=":")
    axes.axvline(output, color=INK, linewidth=1)
    top = axes.get_xaxis_transform()
    for at, text in ((killed, "killed"), (output, "recovered")):
        axes.text(at, 1.02, text, transform=top, ha="center", va="bottom", color=INK)
    axes.set_xlabel("seconds since the first record was sent")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(axis="x", visible=False)


def _quantile(ages_ms: Mapping[int, int], share: float) -> float | None:
    """Return the smallest age that this share of the duplicates does not exceed."""
    wanted = share * sum(ages_ms.values())
    below = 0
    for age in sorted(ages_ms):
        below += ages_ms[age]
        if below >= wanted:
            return float(age)
    return None
