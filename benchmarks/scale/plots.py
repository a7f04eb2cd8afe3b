"""The plot of the scale benchmark: six figures against the ids in the store."""

from collections.abc import Callable
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.scale.result import GOAL_BYTES_PER_ID, GOAL_SHARE, GOAL_START_SECONDS, Rung, Scale

_MIB: Final = 1 << 20
_COLOURS: Final = ("#2a6fdb", "#8a8f98", "#9dbdf0")
_GOAL: Final[dict[str, Any]] = {"color": "0.35", "linestyle": ":", "linewidth": 1.2}

_Line = tuple[str, Callable[[Rung], float]]


def plot_scale(figure: Figure, result: Scale) -> None:
    """Draw it."""
    figure.set_size_inches(8.4, 8.4)
    (speed, lookup), (memory, disk), (written, starts) = figure.subplots(3, 2, sharex=True)
    _draw(speed, result, ("", lambda rung: rung.run.per_cpu_second / 1e3))
    goal = result.smallest.run.per_cpu_second * GOAL_SHARE / 1e3
    speed.axhline(goal, label=f"{GOAL_SHARE:.0%} of the first", **_GOAL)
    speed.set(title="throughput", ylabel="thousand msgs / CPU s")
    _draw(
        lookup,
        result,
        ("of a worker's loop", lambda rung: rung.run.stages.get("lookup", 0.0)),
        ("CPU, store alone", lambda rung: rung.filled.lookup_micros),
    )
    lookup.set(title="lookup", ylabel="µs a message")
    _draw(
        memory,
        result,
        ("resident", lambda rung: rung.run.resident / _MIB),
        ("of it anonymous", lambda rung: rung.run.anonymous / _MIB),
    )
    if result.limit_bytes:
        memory.axhline(result.limit_bytes / _MIB, label="limit", **_GOAL)
    memory.set(title="memory of the worker", ylabel="MiB")
    _draw(disk, result, ("", lambda rung: rung.bytes_per_id))
    disk.axhline(GOAL_BYTES_PER_ID, label="goal", **_GOAL)
    disk.set(title="disk", ylabel="bytes an id")
    _draw(written, result, ("", lambda rung: rung.filled.write_amplification))
    written.set(title="write amplification", ylabel="bytes written / bytes of ids")
    _draw(
        starts,
        result,
        ("ready after SIGKILL", lambda rung: rung.restart.ready_seconds),
        ("reconciling after SIGKILL", lambda rung: rung.restart.reconciling_seconds),
        (f"reconcile of {result.messages:,} messages", lambda rung: rung.tail.reconcile_seconds),
    )
    starts.axhline(GOAL_START_SECONDS, label="goal, reconciling", **_GOAL)
    starts.set(title="start", ylabel="s")
    for axes in figure.axes:
        axes.set_ylim(0, axes.dataLim.y1 * 1.15)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    for axes in (written, starts):
        axes.set(xlabel="million ids in the store")


def _draw(axes: Axes, result: Scale, *lines: _Line) -> None:
    keys = [rung.keys / 1e6 for rung in result.rungs]
    for (label, value), colour in zip(lines, _COLOURS, strict=False):
        values = [value(rung) for rung in result.rungs]
        axes.plot(keys, values, ".-", color=colour, label=label or None)
