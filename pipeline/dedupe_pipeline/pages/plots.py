"""Plots as SVG text, for the pages of `templates`.

The audit's report and the examples use it. A plot is drawn in placeholder colours, which are then replaced by the CSS
variables of `page.css`, so that one picture serves the light and the dark page.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, GRID, RAW, CLEAN, REPEATS = "#010203", "#010204", "#010205", "#010206", "#010207"
_VARIABLES = {
    INK: "var(--muted)",
    GRID: "var(--line)",
    RAW: "var(--raw)",
    CLEAN: "var(--clean)",
    REPEATS: "var(--repeats)",
}
_STYLE: Any = {  # its own annotation spells out all 300 names
    "axes.axisbelow": True,
    "axes.edgecolor": GRID,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.color": GRID,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "svg.fonttype": "none",  # text stays text: small, and in the page's own font
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "ytick.left": False,
}


@contextmanager
def plot(y_label: str) -> Iterator[tuple[Figure, Axes]]:
    """Yield a figure with one plot in the pages' style; call `svg` within the block."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.6, 2.7), layout="constrained")
        axes = figure.subplots()
        axes.set_ylabel(y_label)
        yield figure, axes


def svg(figure: Figure, salt: str) -> str:
    """Return inline SVG.

    `salt` makes the ids in a picture reproducible, and different from those of other pictures on the page.
    """
    text = StringIO()
    with mpl.rc_context({"svg.hashsalt": salt}):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue()[text.getvalue().index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # unused ids, which are the same in every picture
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg)
    for mark, variable in _VARIABLES.items():
        svg = svg.replace(mark, variable)
    return svg
