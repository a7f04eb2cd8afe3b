"""The plots: a figure for each result, goals as dotted lines."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.cases.ageing import Ageing
from benchmarks.cases.aggregate import Aggregated
from benchmarks.cases.cores import CoreUse
from benchmarks.cases.extras import Extras
from benchmarks.cases.filters import Filters
from benchmarks.cases.inverse_bloom import FixedTables
from benchmarks.cases.latency import QUANTILES, Latency, LatencyRun
from benchmarks.cases.memory import MemoryUse
from benchmarks.cases.reconcile import KINDS, Reconcile
from benchmarks.cases.router import RouterUse
from benchmarks.cases.router_latency import RouterLatency
from benchmarks.cases.throughput import Throughput
from benchmarks.growth.result import GrowthUse
from benchmarks.harness.measure import Speed
from benchmarks.peers.results import Peers
from benchmarks.recovery.failover import Failover, Rung
from benchmarks.recovery.local import SHARES, Recovery
from benchmarks.reporting.goals import bound_of
from benchmarks.reporting.render import Result, name_of
from benchmarks.scale.result import Rung as Step
from benchmarks.scale.result import Scale
from dedupe_worker.store.inverse_bloom.sizing import messages_for, retained

_MIB: Final = 1 << 20
_GOAL: Final[dict[str, Any]] = {"color": "0.35", "linestyle": ":", "linewidth": 1.2}
_DOTS: Final[dict[str, Any]] = {"color": "black", "linestyle": "", "marker": ".", "markersize": 4}
_BLUE, _GREY, _PALE = "#2a6fdb", "#8a8f98", "#9dbdf0"
_SHOWN_QUANTILES: Final = QUANTILES[3:-1]  # from p50 on; the scale has no place for 100 %

mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same figures give the same file


def plot(result: Result, path: Path) -> None:
    """Draw a result to `path` (.svg or .png), unless there is no plot of its kind."""
    draw = _PLOTS.get(name_of(result))
    if draw is None:
        return
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    draw(figure, result)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _bars(
    axes: Axes,
    names: Sequence[str],
    values: Sequence[Sequence[float]],
    colors: Sequence[str] | str = _BLUE,
    *,
    lying: bool = False,
) -> None:
    """Draw a bar for each name at the median of its values, and a dot for each value."""
    places = range(len(names))
    heights = [median(each) for each in values]
    (axes.barh if lying else axes.bar)(places, heights, 0.6, color=colors)
    for place, each in enumerate(values):
        at = [place] * len(each)
        axes.plot(*((each, at) if lying else (at, each)), **_DOTS)
    (axes.set_yticks if lying else axes.set_xticks)(places, names, fontsize=8)
    if lying and not axes.yaxis_inverted():
        axes.invert_yaxis()


def _rates(runs: Iterable[Speed]) -> list[float]:
    """Thousands of messages per CPU second."""
    return [run.per_cpu_second / 1e3 for run in runs]


def _micros(runs: Iterable[Speed]) -> list[float]:
    """CPU microseconds per message."""
    return [1e6 / run.per_cpu_second for run in runs]


def _throughput(figure: Figure, result: Throughput) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    names: list[str] = []
    values = []
    for size in result.by_bytes:
        names += [f"bare\n{size.value_bytes:,} B", f"worker\n{size.value_bytes:,} B"]
        values += [_rates(p.bare for p in size.rounds), _rates(p.worker for p in size.rounds)]
    _bars(left, names, values, [_GREY, _BLUE] * len(result.sizes))
    share = bound_of("throughput", "share") or 0
    for number, size in enumerate(result.by_bytes):
        goal = size.bare_per_cpu_second / 1e3 * share
        label = f"{share:.0%} of bare" if not number else None
        left.hlines(goal, 2 * number + 0.6, 2 * number + 1.4, label=label, **_GOAL)
    left.set(ylabel="thousand messages / CPU second")
    left.legend(fontsize="small")
    stages = sorted(result.usual.stages.items(), key=lambda stage: stage[1])
    right.barh([name for name, _ in stages], [micros for _, micros in stages], color=_BLUE)
    right.set(xlabel="elapsed µs / message", title="the worker's stages")


def _cores(figure: Figure, result: CoreUse) -> None:
    left, right = figure.subplots(1, 2)
    names = ("one worker\non one core", "two workers\non two cores")
    runs = [[pair.one for pair in result.rounds], [pair.two for pair in result.rounds]]
    _bars(left, names, [[run.per_second / 1e3 for run in each] for each in runs], [_GREY, _BLUE])
    goal = bound_of("cores", "per_minute") or 0
    left.axhline(goal * 1e3 / 60, label=f"{goal:g} M a minute", **_GOAL)
    left.set(ylabel="thousand messages / s")
    left.legend(fontsize="small", loc="upper left")
    _bars(right, names, [_rates(each) for each in runs], [_GREY, _BLUE])
    right.set(ylabel="thousand messages / CPU second")


def _ageing(figure: Figure, result: Ageing) -> None:
    axes = figure.subplots()
    runs = ([pair.keeping for pair in result.rounds], [pair.ageing for pair in result.rounds])
    names = ("a window that keeps every id", "a window that ages")
    _bars(axes, names, [_micros(each) for each in runs], [_GREY, _BLUE])
    axes.set(ylabel="CPU µs / message")


def _extras(figure: Figure, result: Extras) -> None:
    places = figure.subplots(1, len(result.rates), sharey=True)
    for axes, rate in zip(places, result.rates, strict=True):
        kinds = list(rate.rounds[0].runs)
        values = [_micros(each.runs[kind] for each in rate.rounds) for kind in kinds]
        _bars(axes, kinds, values, [_GREY, *[_BLUE] * (len(kinds) - 1)], lying=True)
        axes.set(xlabel="CPU µs / message", title=f"{rate.repeat_rate:.1%} duplicates")


def _inverse_bloom(figure: Figure, result: FixedTables) -> None:
    axes = figure.subplots()
    later = np.linspace(0, result.retained[-1].later * 1.1, 200)
    by_formula = [retained(result.slots, x) * 100 for x in later.tolist()]
    axes.plot(later / 1e6, by_formula, color=_GREY, label="(1 - 1/N)^x")
    # Each id of the sample has fewer later ids than its predecessor: placed where the formula has their mean.
    at = [messages_for(result.slots, each.expected) / 1e6 for each in result.retained]
    shares = [each.measured * 100 for each in result.retained]
    axes.plot(at, shares, "o", color=_BLUE, label="measured")
    title = f"share of ids that a table of {result.slots / 1e6:g} M slots retains"
    axes.set(title=title, xlabel="million later ids", ylabel="%", ylim=(0, 102))
    axes.legend(fontsize="small")


def _latency(figure: Figure, result: Latency) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    _quantiles(left, result.runs, {50: "p50", 99: "p99"})
    left.set(ylabel="latency, ms")
    _quantiles(right, result.half_load, {99: "half_load_p99"})


def _quantiles(axes: Axes, runs: Sequence[LatencyRun], goals: dict[int, str]) -> None:
    position = [-np.log10(1 - percent / 100) for percent in _SHOWN_QUANTILES]
    for run in runs:
        values = [run.quantile(percent) for percent in _SHOWN_QUANTILES]
        style = (".--", _GREY) if run.commit_interval_ms is None else (".-", None)
        axes.plot(position, values, style[0], color=style[1], label=run.setting)
    for percent, name in goals.items():
        at, goal = -np.log10(1 - percent / 100), bound_of("latency", name) or 0
        axes.plot([at], [goal], "v", color="0.35", markersize=7)
        text: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 8}
        axes.annotate(f"goal p{percent}", (at, goal), (0, 7), **text)
    labels = [f"{percent:g} %" for percent in _SHOWN_QUANTILES]
    axes.set(yscale="log", xlabel=f"quantile of messages, at {runs[0].rate:,} messages/s")
    axes.set_xticks(position, labels, fontsize=6)
    axes.legend(fontsize="small")


def _router(figure: Figure, result: RouterUse) -> None:
    axes = figure.subplots()
    runs = ([pair.bare for pair in result.rounds], [pair.router for pair in result.rounds])
    _bars(axes, ("bare loop", "router"), [_rates(each) for each in runs], [_GREY, _BLUE])
    goal = (bound_of("router", "share") or 0) * result.bare_per_cpu_second / 1e3
    axes.axhline(goal, label="goal", **_GOAL)
    axes.set(ylabel="thousand messages / CPU second")
    axes.legend(fontsize="small")


def _router_latency(figure: Figure, result: RouterLatency) -> None:
    for axes, percent in zip(figure.subplots(1, 2), (50, 99), strict=True):
        values = [
            [run.quantile(percent) for run in result.runs(routed=routed)]
            for routed in (False, True)
        ]
        _bars(axes, ("without routers", "with routers"), values, [_GREY, _BLUE])
        axes.axhline(bound_of("router_latency", f"p{percent}") or 0, label="goal", **_GOAL)
        axes.set(title=f"p{percent}", ylabel="ms")
        axes.legend(fontsize="small")


def _growth(figure: Figure, result: GrowthUse) -> None:
    periods = [result.usual, *result.steps, result.later]
    names = [period.name for period in periods]
    for axes, kind in zip(figure.subplots(1, 2), ("stays", "moves"), strict=True):
        delays = [getattr(period, kind) for period in periods]
        _bars(axes, names, [[each.longest_ms / 1e3 if each else 0.0] for each in delays])
        axes.set(title=f"longest delay of an id that {kind}", ylabel="s")
        axes.tick_params(axis="x", labelsize=5, rotation=20)
        if kind == "moves":
            axes.axhline(bound_of("growth", kind) or 0, label="goal", **_GOAL)
            axes.legend(fontsize="small")


def _memory(figure: Figure, result: MemoryUse) -> None:
    axes = figure.subplots()
    for number, run in enumerate(result.growing):
        keys_per_offset = run.keys / run.samples[-1].offset / 1e6
        keys = [sample.offset * keys_per_offset for sample in run.samples]
        labels = ("resident", "of it anonymous") if number == 0 else (None, None)
        axes.plot(keys, [x.resident / _MIB for x in run.samples], color=_BLUE, label=labels[0])
        axes.plot(keys, [x.anonymous / _MIB for x in run.samples], color=_GREY, label=labels[1])
        kind = run.what.rpartition(", ")[2].replace(" ", "\n")
        axes.annotate(kind, ((keys[0] + keys[-1]) / 2, 8), ha="center", fontsize=8)
    for run, marker in zip(result.backlogs, ("s", "^"), strict=True):
        label = f"peak: {run.what}"
        axes.plot([run.keys / 1e6], [run.peak / _MIB], marker, color="black", label=label)
    axes.axhline(bound_of("memory", "peak") or 0, label="goal", **_GOAL)
    axes.set(xlabel="million keys in the store", ylabel="MiB", ylim=(0, None))
    axes.legend(fontsize="small", loc="center", bbox_to_anchor=(0.5, 0.3))


def _reconcile(figure: Figure, result: Reconcile) -> None:
    axes = figure.subplots()
    rates = [[run.per_second / 1e3 for run in result.of(kind)] for kind in KINDS]
    _bars(axes, ("tail", "rebuild"), rates, lying=True)
    axes.axvline((bound_of("reconcile", "per_second") or 0) / 1e3, label="goal", **_GOAL)
    axes.set(xlabel="thousand records / s")
    axes.legend(fontsize="small")


def _recovery(figure: Figure, result: Recovery) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(4, 3))
    names, values = [], []
    for size in result.sizes:
        ids = f"{size.keys / 1e6:g} M ids"
        names += [f"output\n{ids}", f"without\n{ids}", f"the loop\n{ids}"]
        values += [size.pause.with_ms, size.pause.without_ms, size.pause.loop_ms]
        later = size.uploads[1:]
        right.plot(
            [each.added_share * 100 for each in later],
            [each.uploaded_share * 100 for each in later],
            ".",
            color=_BLUE if size is result.largest else _GREY,
            markersize=9,
            label=ids,
        )
    _bars(left, names, values, [_BLUE, _GREY, _PALE] * len(result.sizes))
    left.axhline(bound_of("recovery", "pause") or 0, label="goal", **_GOAL)
    left.set(title="pause around a checkpoint", ylabel="ms", ylim=(0, None))
    left.legend(fontsize="small")
    shares = [share * 100 for share in (*SHARES, 1.0)]
    right.plot(shares, shares, label="the new ids alone", **_GOAL)
    right.set(xscale="log", yscale="log", title="the next snapshot to a bucket")
    right.set(xlabel="new ids, % of all", ylabel="uploaded, % of all bytes")
    right.legend(fontsize="small")


def _failover(figure: Figure, result: Failover) -> None:
    axes = figure.subplots()
    climbs = sorted(result.climbs, key=lambda c: (list(Rung).index(c.rung), c.keys))
    largest = max(climb.keys for climb in climbs)
    names = [f"{climb.rung}, {climb.keys / 1e6:g} M ids" for climb in climbs]
    colors = [_BLUE if climb.keys == largest else _GREY for climb in climbs]
    _bars(axes, names, [climb.seconds for climb in climbs], colors, lying=True)
    for place, climb in enumerate(climbs):
        if goal := bound_of("failover", climb.rung):
            axes.plot([goal, goal], [place - 0.4, place + 0.4], **_GOAL)
    axes.set(xlabel="s from the loss until the partition is ready; dotted: goals", xlim=(0, None))


def _peers(figure: Figure, result: Peers) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 2), sharey=True)
    names = [peer.title for peer in result.peers]
    colors = [
        ("#d5d8dc" if not peer.removes_duplicates else _BLUE if peer.name == "ours" else _GREY)
        for peer in result.peers
    ]
    _bars(left, names, [_rates(peer.runs) for peer in result.peers], colors, lying=True)
    peaks = [[run.peak_bytes / _MIB for run in peer.runs] for peer in result.peers]
    _bars(right, names, peaks, colors, lying=True)
    left.set(xlabel="thousand messages / CPU second")
    right.set(xlabel="peak resident memory, MiB")


def _scale(figure: Figure, result: Scale) -> None:
    figure.set_size_inches(8.4, 8.4)
    (speed, lookup), (memory, disk), (written, starts) = figure.subplots(3, 2, sharex=True)
    keys = [step.keys / 1e6 for step in result.rungs]

    def draw(axes: Axes, title: str, unit: str, **lines: Callable[[Step], float]) -> None:
        axes.set(title=title, ylabel=unit)
        for (label, value), color in zip(lines.items(), (_BLUE, _GREY, _PALE), strict=False):
            values = [value(step) for step in result.rungs]
            axes.plot(keys, values, ".-", color=color, label=label.replace("_", " "))

    draw(speed, "throughput", "thousand msgs / CPU s", worker=lambda x: x.run.per_cpu_second / 1e3)
    goal = (bound_of("scale", "share") or 0) * result.smallest.run.per_cpu_second / 1e3
    speed.axhline(goal, label="goal", **_GOAL)
    draw(
        lookup,
        "lookup",
        "µs a message",
        elapsed_in_the_loop=lambda x: x.run.stages.get("lookup", 0.0),
        CPU_of_the_store_alone=lambda x: x.filled.lookup_micros,
    )
    draw(
        memory,
        "memory of the worker",
        "MiB",
        resident=lambda x: x.run.resident / _MIB,
        of_it_anonymous=lambda x: x.run.anonymous / _MIB,
    )
    if result.limit_bytes:
        memory.axhline(result.limit_bytes / _MIB, label="limit", **_GOAL)
    draw(disk, "disk", "bytes per id", store=lambda x: x.bytes_per_id)
    disk.axhline(bound_of("scale", "disk") or 0, label="goal", **_GOAL)
    draw(
        written,
        "write amplification",
        "bytes written / bytes of ids",
        RocksDB=lambda x: x.filled.write_amplification,
    )
    draw(
        starts,
        "start",
        "s",
        ready_after_SIGKILL=lambda x: x.restart.ready_seconds,
        catching_up_after_SIGKILL=lambda x: x.restart.reconciling_seconds,
        catching_up_on_all_messages=lambda x: x.tail.reconcile_seconds,
    )
    starts.axhline(bound_of("scale", "start") or 0, label="goal, catching up", **_GOAL)
    for axes in figure.axes:
        axes.set_ylim(0, axes.dataLim.y1 * 1.15)
        axes.legend(fontsize="small")
    for axes in (written, starts):
        axes.set(xlabel="million ids in the store")


def _filters(figure: Figure, result: Filters) -> None:
    left, middle, right = figure.subplots(1, 3)
    names = [f"{size.chunk_records:,}" for size in result.sizes]
    places = np.arange(len(names))
    for axes, title, field, unit in (
        (left, "MB fetched", "fetched_bytes", 1e6),
        (middle, "seconds", "seconds", 1.0),
    ):
        for aside, label, color in ((-0.2, "everything", _GREY), (0.2, "skipping", _BLUE)):
            reads = [getattr(size, label) for size in result.sizes]
            heights = [median(getattr(read, field) for read in each) / unit for each in reads]
            axes.bar(places + aside, heights, 0.4, label=label, color=color)
        axes.set_xticks(places, names)
        axes.set(title=title, xlabel="records per chunk")
    left.legend(fontsize="small")
    offsets = [gap.offsets for gap in result.gaps]
    right.plot(offsets, [gap.fetched_ms for gap in result.gaps], label="fetched", color=_GREY)
    right.plot(offsets, [gap.skipped_ms for gap in result.gaps], label="skipped", color=_BLUE)
    right.set(xscale="log", title="ms per gap", xlabel="offsets in it")
    right.set_ylim(bottom=0)
    right.legend(fontsize="small")


def _aggregate(figure: Figure, result: Aggregated) -> None:
    axes = figure.subplots()
    names = [f"{batch:,}" for batch in result.by_batch]
    runs = result.by_batch.values()
    _bars(axes, names, [[result.records / run.seconds / 1e3 for run in each] for each in runs])
    title = "flights into PostgreSQL"
    axes.set(xlabel="records per batch", ylabel="thousand records / s", title=title)


_PLOTS: Final[dict[str, Callable[[Figure, Any], None]]] = {
    "throughput": _throughput,
    "cores": _cores,
    "ageing": _ageing,
    "extras": _extras,
    "inverse_bloom": _inverse_bloom,
    "latency": _latency,
    "memory": _memory,
    "reconcile": _reconcile,
    "router": _router,
    "router_latency": _router_latency,
    "growth": _growth,
    "recovery": _recovery,
    "failover": _failover,
    "peers": _peers,
    "unkeyed": _peers,
    "scale": _scale,
    "filters": _filters,
    "aggregate": _aggregate,
}
