"""The plots of the audit's page, as SVG text that takes its colours from the page around it.

Each colour is drawn as a mark that no plot contains by chance, and then replaced by a CSS variable:
one picture serves the light and the dark page.
"""

import re
from datetime import timedelta
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, PercentFormatter

from dedupe_pipeline.audit.result import Distribution, TimeSlice

_INK, _GRID, _RAW, _CLEAN, _REPEATS = "#010203", "#010204", "#010205", "#010206", "#010207"
_VARIABLES = {
    _INK: "var(--muted)",
    _GRID: "var(--line)",
    _RAW: "var(--raw)",
    _CLEAN: "var(--clean)",
    _REPEATS: "var(--repeats)",
}
_STYLE: Any = {  # its own annotation spells out all 300 names
    "axes.axisbelow": True,
    "axes.edgecolor": _GRID,
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.color": _GRID,
    "legend.frameon": False,
    "legend.labelcolor": _INK,
    "svg.fonttype": "none",  # text stays text: small, and in the page's own font
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "ytick.left": False,
}
_UNITS_MS = ((1, "1 ms"), (1e3, "1 s"), (6e4, "1 min"), (3.6e6, "1 h"), (8.64e7, "1 d"))


def throughput(timeline: tuple[TimeSlice, ...]) -> str:
    """Records per second over the records' own time, raw against clean."""
    with mpl.rc_context(_STYLE):
        figure, axes = _new("records per second")
        edges = _edges(timeline)
        for name, colour in (("raw", _RAW), ("clean", _CLEAN)):
            rates = [getattr(one, name) / one.seconds for one in timeline]
            axes.stairs(rates, edges, color=colour, linewidth=1.6, label=name)
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        axes.legend(loc="upper right", ncols=2, bbox_to_anchor=(1, 1.14))
        _time_axis(axes)
        return _svg(figure, "throughput")


def duplicate_rate(timeline: tuple[TimeSlice, ...]) -> str:
    """Share of repeats among the raw records over the records' own time."""
    with mpl.rc_context(_STYLE):
        figure, axes = _new("repeats among raw records")
        shares = [one.repeats / one.raw if one.raw else 0 for one in timeline]
        axes.stairs(shares, _edges(timeline), color=_REPEATS, fill=True, alpha=0.8)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        _time_axis(axes)
        return _svg(figure, "duplicate-rate")


def histogram(distribution: Distribution, label: str) -> str:
    """Repeats by delay or distance on a log axis; what is below 1 stands left of it."""
    with mpl.rc_context(_STYLE):
        figure, axes = _new("repeats")
        lows = [max(one.low, 0.5) for one in distribution.bins]
        widths = [one.high - low for one, low in zip(distribution.bins, lows, strict=True)]
        records = [one.records for one in distribution.bins]
        axes.bar(lows, records, widths, align="edge", color=_REPEATS, alpha=0.8, linewidth=0)
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
        return _svg(figure, distribution.unit)


def _new(y_label: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.6, 2.7), layout="constrained")
    axes = figure.subplots()
    axes.set_ylabel(y_label)
    return figure, axes


def _edges(timeline: tuple[TimeSlice, ...]) -> list[float]:
    last = timeline[-1]
    edges = [*(one.start for one in timeline), last.start + timedelta(seconds=last.seconds)]
    return [float(date2num(edge)) for edge in edges]  # type: ignore[no-untyped-call] # as below


def _time_axis(axes: Axes) -> None:
    locator = AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call] # theirs is not annotated
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call] # as above
    axes.set_ylim(bottom=0)
    axes.grid(axis="x", visible=False)


def _svg(figure: Figure, salt: str) -> str:
    """Inline SVG; `salt` keeps the ids of several pictures on a page apart, and each the same."""
    text = StringIO()
    with mpl.rc_context({"svg.hashsalt": salt}):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue()[text.getvalue().index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # names nobody refers to, the same in every picture
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg)
    for mark, variable in _VARIABLES.items():
        svg = svg.replace(mark, variable)
    return svg
