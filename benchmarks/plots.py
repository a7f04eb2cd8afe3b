"""The plots: one figure for each benchmark."""

from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import memory, throughput
from benchmarks.latency import GOAL_P50_MS, GOAL_P99_MS, QUANTILES, Latency
from benchmarks.memory import MemoryUse
from benchmarks.reconcile import GOAL_PER_SECOND, KINDS, Reconcile
from benchmarks.report import Result
from benchmarks.throughput import Throughput

_MIB: Final = 1 << 20
_GOAL: Final[dict[str, Any]] = {"color": "0.35", "linestyle": ":", "linewidth": 1.2}
_BARE: Final = "#8a8f98"
_WORKER: Final = "#2a6fdb"
_SHOWN_QUANTILES: Final = QUANTILES[3:-1]  # from p50 on; the scale has no place for 100 %

mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same figures give the same file


def plot(result: Result, path: Path) -> None:
    """Draw a result to `path` (.svg or .png)."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    match result:
        case Throughput():
            _throughput(figure, result)
        case Latency():
            _latency(figure.subplots(), result)
        case MemoryUse():
            _memory(figure.subplots(), result)
        case Reconcile():
            _reconcile(figure.subplots(), result)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _throughput(figure: Figure, result: Throughput) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    rounds = np.arange(1, len(result.rounds) + 1)
    bare = [pair.bare.per_cpu_second / 1e3 for pair in result.rounds]
    worker = [pair.worker.per_cpu_second / 1e3 for pair in result.rounds]
    left.bar(rounds - 0.2, bare, 0.4, label="bare loop", color=_BARE)
    left.bar(rounds + 0.2, worker, 0.4, label="worker", color=_WORKER)
    goal = [each * throughput.GOAL_SHARE for each in bare]
    left.hlines(goal, rounds, rounds + 0.4, label=f"{throughput.GOAL_SHARE:.0%} of bare", **_GOAL)
    left.set(xlabel="round", ylabel="thousand messages / CPU second", xticks=rounds)
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize="small", ncols=3, frameon=False)
    stages = sorted(result.stages.items(), key=lambda stage: stage[1])
    right.barh([name for name, _ in stages], [micros for _, micros in stages], color=_WORKER)
    right.set(xlabel="elapsed µs / message", title="the worker's stages")


def _latency(axes: Axes, result: Latency) -> None:
    position = [-np.log10(1 - percent / 100) for percent in _SHOWN_QUANTILES]
    for run in result.runs:
        values = [run.quantile(percent) for percent in _SHOWN_QUANTILES]
        if run.commit_interval_ms is None:
            axes.plot(position, values, ".--", color=_BARE, label="without a worker")
        else:
            axes.plot(position, values, ".-", label=f"commit interval {run.commit_interval_ms} ms")
    for percent, goal in ((50, GOAL_P50_MS), (99, GOAL_P99_MS)):
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
        ylabel="latency, ms",
        xlabel=f"quantile of messages, at {result.rate:,} messages/s",
        xticks=position,
        xticklabels=[f"{percent:g} %" for percent in _SHOWN_QUANTILES],
    )
    axes.tick_params(axis="x", labelsize=8)
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
