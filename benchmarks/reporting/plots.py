"""The plots: one figure for each benchmark."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.aggregate_report import plot_aggregate
from benchmarks.cases import cores, memory, throughput
from benchmarks.cases.ageing import Ageing
from benchmarks.cases.aggregate import Aggregated
from benchmarks.cases.cores import CoreUse
from benchmarks.cases.extras import Extras
from benchmarks.cases.filters import Filters
from benchmarks.cases.inverse_bloom import FixedTables
from benchmarks.cases.latency import (
    GOAL_HALF_LOAD_P99_MS,
    GOAL_P50_MS,
    GOAL_P99_MS,
    QUANTILES,
    Latency,
    LatencyRun,
)
from benchmarks.cases.memory import MemoryUse
from benchmarks.cases.reconcile import GOAL_PER_SECOND, KINDS, Reconcile
from benchmarks.cases.throughput import Throughput
from benchmarks.filters_report import plot_filters
from benchmarks.inverse_bloom_report import plot_inverse_bloom
from benchmarks.peers.plot import plot_peers
from benchmarks.peers.results import Peers
from benchmarks.recovery import failover as rungs
from benchmarks.recovery import local as recovery
from benchmarks.recovery.failover import Failover, Rung
from benchmarks.recovery.local import Recovery
from benchmarks.report import Result
from benchmarks.scale.plots import plot_scale
from benchmarks.scale.result import Scale

_MIB: Final = 1 << 20
_GOAL: Final[dict[str, Any]] = {"color": "0.35", "linestyle": ":", "linewidth": 1.2}
_BARE: Final = "#8a8f98"
_WORKER: Final = "#2a6fdb"
_LOOP: Final = "#9dbdf0"
_FAILOVER_GOALS: Final = {
    Rung.REATTACH: rungs.GOAL_REATTACH_SECONDS,
    Rung.CSI: rungs.GOAL_CSI_SECONDS,
}
_SHOWN_QUANTILES: Final = QUANTILES[3:-1]  # from p50 on; the scale has no place for 100 %

mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same figures give the same file


def plot(result: Result, path: Path) -> None:  # noqa: C901, PLR0912 (one for each)
    """Draw a result to `path` (.svg or .png)."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    match result:
        case Throughput():
            _throughput(figure, result)
        case Latency():
            _latency(figure, result)
        case CoreUse():
            _cores(figure, result)
        case Ageing():
            _ageing(figure.subplots(), result)
        case Extras():
            _extras(figure, result)
        case MemoryUse():
            _memory(figure.subplots(), result)
        case Reconcile():
            _reconcile(figure.subplots(), result)
        case Recovery():
            _recovery(figure, result)
        case Failover():
            _failover(figure.subplots(), result)
        case Peers():
            plot_peers(figure, result)
        case Scale():
            plot_scale(figure, result)
        case Filters():
            plot_filters(figure, result)
        case FixedTables():
            plot_inverse_bloom(figure.subplots(), result)
        case Aggregated():
            plot_aggregate(figure.subplots(), result)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _throughput(figure: Figure, result: Throughput) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    sizes = sorted(result.sizes, key=lambda size: size.value_bytes)
    places = np.arange(len(sizes))
    bare = [size.bare_per_cpu_second / 1e3 for size in sizes]
    left.bar(places - 0.2, bare, 0.4, label="bare loop", color=_BARE)
    worker = [size.worker_per_cpu_second / 1e3 for size in sizes]
    left.bar(places + 0.2, worker, 0.4, label="worker", color=_WORKER)
    goal = [each * throughput.GOAL_SHARE for each in bare]
    left.hlines(goal, places, places + 0.4, label=f"{throughput.GOAL_SHARE:.0%} of bare", **_GOAL)
    for place, size in zip(places, sizes, strict=True):
        for aside, runs in (
            (-0.2, [p.bare for p in size.rounds]),
            (0.2, [p.worker for p in size.rounds]),
        ):
            rates = [run.per_cpu_second / 1e3 for run in runs]
            left.plot([place + aside] * len(rates), rates, ".", color="black", markersize=4)
    left.set(xlabel="bytes a value", ylabel="thousand messages / CPU second")
    left.set_xticks(places, [f"{size.value_bytes:,}" for size in sizes])
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize="small", ncols=3, frameon=False)
    stages = sorted(result.usual.stages.items(), key=lambda stage: stage[1])
    right.barh([name for name, _ in stages], [micros for _, micros in stages], color=_WORKER)
    right.set(xlabel="elapsed µs / message", title="the worker's stages")


def _cores(figure: Figure, result: CoreUse) -> None:
    left, right = figure.subplots(1, 2)
    names = ("one worker\non one core", "two workers\non two cores")
    runs = ([pair.one for pair in result.rounds], [pair.two for pair in result.rounds])
    seconds = [[run.per_second / 1e3 for run in each] for each in runs]
    cpu_seconds = [[run.per_cpu_second / 1e3 for run in each] for each in runs]
    _bars(left, names, seconds)
    left.axhline(cores.GOAL_PER_MINUTE / 60e3, label="2 M a minute", **_GOAL)
    left.set(ylabel="thousand messages / s")
    left.legend(fontsize="small", loc="upper left")
    _bars(right, names, cpu_seconds)
    right.set(ylabel="thousand messages / CPU second")


def _ageing(axes: Axes, result: Ageing) -> None:
    runs = ([pair.keeping for pair in result.rounds], [pair.ageing for pair in result.rounds])
    names = ("a window that keeps every id", "a window that ages")
    _bars(axes, names, [[1e6 / run.per_cpu_second for run in each] for each in runs])
    axes.set(ylabel="CPU µs / message")


def _extras(figure: Figure, result: Extras) -> None:
    for axes, rate in zip(
        figure.subplots(1, len(result.rates), sharey=True), result.rates, strict=True
    ):
        for place, kind in enumerate(rate.rounds[0].runs):
            micros = [1e6 / each.runs[kind].per_cpu_second for each in rate.rounds]
            axes.barh([kind], [float(np.median(micros))], color=_WORKER if place else _BARE)
            axes.plot(micros, [place] * len(micros), ".", color="black")
        axes.invert_yaxis()
        axes.set(xlabel="CPU µs / message", title=f"{rate.repeat_rate:.1%} repeats")


def _bars(axes: Axes, names: Sequence[str], values: Sequence[Sequence[float]]) -> None:
    """A bar for each name at the median of its values, and a dot for each of these."""
    colors = (_BARE, _WORKER)[: len(names)]
    axes.bar(names, [float(np.median(each)) for each in values], 0.5, color=colors)
    for place, each in enumerate(values):
        axes.plot([place] * len(each), each, ".", color="black")


def _latency(figure: Figure, result: Latency) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    _quantiles(left, result.runs, ((50, GOAL_P50_MS), (99, GOAL_P99_MS)))
    left.set(ylabel="latency, ms")
    _quantiles(right, result.half_load, ((99, GOAL_HALF_LOAD_P99_MS),))


def _quantiles(axes: Axes, runs: Sequence[LatencyRun], goals: Sequence[tuple[int, float]]) -> None:
    position = [-np.log10(1 - percent / 100) for percent in _SHOWN_QUANTILES]
    for run in runs:
        values = [run.quantile(percent) for percent in _SHOWN_QUANTILES]
        if run.commit_interval_ms is None:
            axes.plot(position, values, ".--", color=_BARE, label="without a worker")
        else:
            axes.plot(position, values, ".-", label=f"commit interval {run.commit_interval_ms} ms")
    for percent, goal in goals:
        at = -np.log10(1 - percent / 100)
        axes.plot([at], [goal], "v", color="0.35", markersize=7)
        axes.annotate(
            f"goal p{percent}",
            (at, goal),
            (0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set(
        yscale="log",
        xlabel=f"quantile of messages, at {runs[0].rate:,} messages/s",
        xticks=position,
        xticklabels=[f"{percent:g} %" for percent in _SHOWN_QUANTILES],
    )
    axes.tick_params(axis="x", labelsize=6)
    axes.legend(fontsize="small")


def _memory(axes: Axes, result: MemoryUse) -> None:
    for number, run in enumerate(result.growing):
        keys_per_offset = run.keys / run.samples[-1].offset / 1e6
        keys = [sample.offset * keys_per_offset for sample in run.samples]
        labels = ("resident", "of it anonymous") if number == 0 else (None, None)
        resident = [sample.resident / _MIB for sample in run.samples]
        anonymous = [sample.anonymous / _MIB for sample in run.samples]
        axes.plot(keys, resident, color=_WORKER, label=labels[0])
        axes.plot(keys, anonymous, color=_BARE, label=labels[1])
        kind = run.what.rpartition(", ")[2].replace(" ", "\n")
        axes.annotate(kind, ((keys[0] + keys[-1]) / 2, 8), ha="center", fontsize=8)
    for run, marker in zip(result.backlogs, ("s", "^"), strict=True):
        label = f"peak: {run.what}"
        axes.plot([run.keys / 1e6], [run.peak / _MIB], marker, color="black", label=label)
    axes.axhline(memory.GOAL_BYTES / _MIB, label="goal", **_GOAL)
    axes.set(xlabel="million keys in the store", ylabel="MiB", ylim=(0, None))
    axes.legend(fontsize="small", loc="center", bbox_to_anchor=(0.5, 0.3))


def _reconcile(axes: Axes, result: Reconcile) -> None:
    for place, kind in enumerate(KINDS):
        rates = [run.per_second / 1e3 for run in result.of(kind)]
        axes.barh([place], [float(np.median(rates))], color=_WORKER, height=0.5)
        axes.plot(rates, [place] * len(rates), ".", color="black")
    axes.axvline(GOAL_PER_SECOND / 1e3, label="goal", **_GOAL)
    axes.set(yticks=[0, 1], yticklabels=["tail", "rebuild"], xlabel="thousand records / s")
    axes.legend(fontsize="small")


def _recovery(figure: Figure, result: Recovery) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(4, 3))
    names: list[str] = []
    for size in result.sizes:
        pause = size.pause
        for name, values, color in (
            ("output", pause.with_ms, _WORKER),
            ("without one", pause.without_ms, _BARE),
            ("the loop", pause.loop_ms, _LOOP),
        ):
            left.bar([len(names)], [float(np.median(values))], 0.6, color=color)
            left.plot([len(names)] * len(values), values, ".", color="black", markersize=4)
            names.append(f"{name}\n{size.keys / 1e6:g} M ids")
    left.axhline(recovery.GOAL_PAUSE_MS, label="goal", **_GOAL)
    left.set(title="held up by a checkpoint", ylabel="ms", ylim=(0, None))
    left.set_xticks(range(len(names)), names, fontsize=8)
    left.legend(fontsize="small")
    for size in result.sizes:
        later = size.uploads[1:]
        right.plot(
            [each.added_share * 100 for each in later],
            [each.uploaded_share * 100 for each in later],
            ".",
            color=_WORKER if size is result.largest else _BARE,
            markersize=9,
            label=f"{size.keys / 1e6:g} M ids",
        )
    shares = [share * 100 for share in (*recovery.SHARES, 1.0)]
    right.plot(shares, shares, label="the new ids alone", **_GOAL)
    right.set(
        xscale="log",
        yscale="log",
        title="the next snapshot to a bucket",
        xlabel="new ids, % of all",
        ylabel="uploaded, % of all bytes",
    )
    right.legend(fontsize="small")


def _failover(axes: Axes, result: Failover) -> None:
    names: list[str] = []
    sizes = sorted({climb.keys for climb in result.climbs})
    for climb in sorted(result.climbs, key=lambda c: (list(Rung).index(c.rung), c.keys)):
        place = len(names)
        names.append(f"{climb.rung}, {climb.keys / 1e6:g} M ids")
        color = _WORKER if climb.keys == sizes[-1] else _BARE
        axes.barh([place], [climb.typical], 0.6, color=color)
        axes.plot(climb.seconds, [place] * len(climb.seconds), ".", color="black")
        goal = _FAILOVER_GOALS.get(climb.rung)
        if goal is not None:
            axes.plot([goal, goal], [place - 0.4, place + 0.4], **_GOAL)
    axes.set(xlabel="s from the loss until the partition is ready; dotted: goals", xlim=(0, None))
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
