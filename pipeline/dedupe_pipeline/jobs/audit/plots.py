"""Draw the plots of the audit's report, as SVG text."""

from datetime import timedelta

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.ticker import EngFormatter, FuncFormatter, PercentFormatter

from dedupe_pipeline.jobs.audit.result import Distribution, TimeSlice
from dedupe_pipeline.pages.plots import CLEAN, RAW, REPEATS, plot, svg

_UNITS_MS = ((1, "1 ms"), (1e3, "1 s"), (6e4, "1 min"), (3.6e6, "1 h"), (8.64e7, "1 d"))


def throughput(timeline: tuple[TimeSlice, ...]) -> str:
    """Plot records per second by the records' timestamps, raw and clean."""
    with plot("records per second") as (figure, axes):
        edges = _edges(timeline)
        for name, colour in (("raw", RAW), ("clean", CLEAN)):
            rates = [getattr(each, name) / each.seconds for each in timeline]
            axes.stairs(rates, edges, color=colour, linewidth=1.6, label=name)
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        axes.legend(loc="upper right", ncols=2, bbox_to_anchor=(1, 1.14))
        _time_axis(axes)
        return svg(figure, "throughput")


def duplicate_rate(timeline: tuple[TimeSlice, ...]) -> str:
    """Plot the share of repeats in the raw records by their timestamps."""
    with plot("repeats among raw records") as (figure, axes):
        shares = [each.repeats / each.raw if each.raw else 0 for each in timeline]
        axes.stairs(shares, _edges(timeline), color=REPEATS, fill=True, alpha=0.8)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        _time_axis(axes)
        return svg(figure, "duplicate-rate")


def histogram(distribution: Distribution, label: str) -> str:
    """Plot repeats by delay or distance on a log axis; values below 1 are at its left."""
    with plot("repeats") as (figure, axes):
        lows = [max(each.low, 0.5) for each in distribution.bins]
        widths = [each.high - low for each, low in zip(distribution.bins, lows, strict=True)]
        records = [each.records for each in distribution.bins]
        axes.bar(lows, records, widths, align="edge", color=REPEATS, alpha=0.8, linewidth=0)
        axes.set_xscale("log")
        axes.set_xlabel(label)
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        if distribution.unit == "ms":
            axes.set_xticks([at for at, _ in _UNITS_MS if at <= max(lows) * 10])
            axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: dict(_UNITS_MS).get(at, "")))
        else:
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.minorticks_off()
        axes.grid(axis="x", visible=False)
        return svg(figure, distribution.unit)


def _edges(timeline: tuple[TimeSlice, ...]) -> list[float]:
    last = timeline[-1]
    edges = [*(each.start for each in timeline), last.start + timedelta(seconds=last.seconds)]
    return [float(date2num(edge)) for edge in edges]  # type: ignore[no-untyped-call] # as below


def _time_axis(axes: Axes) -> None:
    locator = AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call] # matplotlib's has no annotations
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call] # as above
    axes.set_ylim(bottom=0)
    axes.grid(axis="x", visible=False)
