"""`kubectl dedupe suspend`, `resume` and `restart`: one patch, and waiting for what comes of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from rich.console import Console

from dedupe_crds.formatting import ranges
from dedupe_crds.status.stream import PartitionPhase
from dedupe_kubectl.api import Api
from dedupe_kubectl.objects import (
    PAUSED,
    RESTART,
    Object,
    Stream,
    by_partition,
    is_ready,
    read_stream,
)
from dedupe_kubectl.waiting import say, tell_if_paused, wait


class Progress(Protocol):
    """What is still missing, as one line; empty when there is nothing."""

    def __call__(self, stream: Stream, pods: Mapping[int, Object]) -> str: ...  # noqa: D102


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

    def look() -> tuple[Stream, Mapping[int, Object]]:
        stream = read_stream(api.stream(namespace, change.stream))
        return stream, by_partition(api.pods(namespace, change.stream))

    before = read_stream(api.stream(namespace, change.stream))
    uids: dict[int, str] = {}
    if timeout_seconds is not None:
        uids = {number: pod["metadata"]["uid"] for number, pod in look()[1].items()}
    if change.is_done(before):
        say(console, f"{before.title} is {change.said} already")
    else:
        api.patch_stream(namespace, change.stream, change.patch)
        say(console, f"{before.title} {change.said}")
    tell_if_paused(before, console)
    if timeout_seconds is None:
        return
    progress = change.progress(uids)
    wait(console, lambda: progress(*look()), timeout_seconds)
    say(console, f"{before.title}: {change.done}")


def to_suspend(stream: Stream, pods: Mapping[int, Object]) -> str:
    """Say what keeps a stream from being suspended."""
    if held := _held(stream):
        return held
    if not stream.suspended:
        return "spec.suspend was set back to false"
    if pods:
        return f"partitions {ranges(pods)} have a worker"
    phases = {one.partition: one.phase for one in stream.status.partitions}
    left = [number for number, phase in phases.items() if phase is not PartitionPhase.SUSPENDED]
    return f"partitions {ranges(left)} are not suspended yet" if left else ""


def to_run(stream: Stream, pods: Mapping[int, Object]) -> str:  # noqa: ARG001 # one of several ways to judge
    """Say what keeps a stream from being ready."""
    if (held := _held(stream)) or stream.condition("Ready", "True"):
        return held
    ready = stream.condition("Ready")
    return ready.message if ready else "the operator has not said that it is ready"


def to_restart(before: Mapping[int, str]) -> Progress:
    """Say which of the pods that were there `before`, by their UIDs, are not replaced yet."""

    def progress(stream: Stream, pods: Mapping[int, Object]) -> str:
        left = [
            partition
            for partition, uid in before.items()
            if partition not in pods
            or pods[partition]["metadata"]["uid"] == uid
            or not is_ready(pods[partition])
        ]
        if not left:
            return to_run(stream, pods)
        done = len(before) - len(left)
        return _held(stream) or f"{done} of {len(before)} restarted, {ranges(left)} to come"

    return progress


def _held(stream: Stream) -> str:
    if stream.paused:
        return PAUSED
    return "" if stream.observed else "the operator has not seen the change yet"
