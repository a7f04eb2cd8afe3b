"""`kubectl dedupe suspend`, `resume` and `restart`: one patch, and waiting for what comes of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.markup import escape

from dedupe_kubectl.api import Api
from dedupe_kubectl.objects import RESTART, Object, Stream, by_partition, read_stream
from dedupe_kubectl.waiting import Progress, to_restart, to_run, to_suspend, until


@dataclass(frozen=True, kw_only=True)
class Change:
    """A patch of a stream. `is_done` tells a stream that needs none; `progress` judges by the pods before."""

    stream: str
    patch: Object
    said: str
    done: str
    is_done: Callable[[Stream], bool]
    progress: Callable[[Mapping[int, str]], Progress]


def suspend_change(stream: str, *, suspend: bool) -> Change:
    """Stop, or start, all workers."""
    return Change(
        stream=stream,
        patch={"spec": {"suspend": suspend}},
        said="suspended" if suspend else "resumed",
        done="all workers are stopped" if suspend else "all partitions are ready",
        is_done=lambda found: found.suspended is suspend,
        progress=lambda _: to_suspend if suspend else to_run,
    )


def restart_change(stream: str, now: datetime) -> Change:
    """Replace all pods, one partition after another."""
    return Change(
        stream=stream,
        patch={"metadata": {"annotations": {RESTART: now.isoformat(timespec="seconds")}}},
        said="restarts",
        done="all workers were replaced, and all partitions are ready",
        is_done=lambda _: False,
        progress=to_restart,
    )


def carry_out(
    api: Api, namespace: str, change: Change, *, timeout_seconds: float | None, console: Console
) -> None:
    """Make the change; with a timeout, wait until all partitions have followed.

    Raises:
        PluginError: it is not allowed, or did not come to its end in time.
    """
    before = read_stream(api.stream(namespace, change.stream))
    pods: dict[int, str] = {}
    if timeout_seconds is not None:
        found = by_partition(api.pods(namespace, change.stream))
        pods = {partition: pod["metadata"]["uid"] for partition, pod in found.items()}
    if change.is_done(before):
        _say(console, f"{before.title} is {change.said} already")
    else:
        api.patch_stream(namespace, change.stream, change.patch)
        _say(console, f"{before.title} {change.said}")
    if before.paused:
        _say(
            console,
            "The operator is kept off it by the annotation dedupestream.io/pause-reconciliation: "
            "nothing happens until that is removed.",
        )
    if timeout_seconds is None:
        return
    _wait(api, namespace, change, pods, timeout_seconds, console)
    _say(console, f"{before.title}: {change.done}")


def _wait(  # noqa: PLR0917 # the parts of one sentence
    api: Api,
    namespace: str,
    change: Change,
    pods: Mapping[int, str],
    timeout_seconds: float,
    console: Console,
) -> None:
    def look() -> tuple[Stream, Mapping[int, Object]]:
        stream = read_stream(api.stream(namespace, change.stream))
        return stream, by_partition(api.pods(namespace, change.stream))

    last = ""

    def tell_plainly(missing: str) -> None:
        nonlocal last
        if missing != last:
            _say(console, missing)
        last = missing

    if not console.is_terminal:
        until(change.progress(pods), look, tell_plainly, timeout_seconds)
        return
    with console.status("waiting") as shown:
        until(
            change.progress(pods),
            look,
            lambda missing: shown.update(escape(missing)),
            timeout_seconds,
        )


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
