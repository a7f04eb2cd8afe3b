"""`kubectl dedupe suspend`, `resume`, `restart`: patch the stream, and wait."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import click
from rich.console import Console

from dedupe_crds.annotations import RESTART
from dedupe_crds.formatting import ranges
from dedupe_crds.status.stream import PartitionPhase
from dedupe_kubectl.api import Api
from dedupe_kubectl.objects import (
    PAUSED,
    Object,
    Stream,
    by_partition,
    is_ready,
    read_stream,
)
from dedupe_kubectl.options import STREAM, TIMEOUT, WAIT, current_clock, on_cluster, terminal
from dedupe_kubectl.waiting import Clock, print_line, wait_until_done, warn_if_paused


@click.command("suspend")
@STREAM
@on_cluster
@TIMEOUT
@WAIT
def suspend_command(*, stream: str, **how: Any) -> None:  # noqa: ANN401 # passed on
    """Stop all workers of a stream; their volumes are retained."""
    _change(suspend_change(stream, suspend=True), **how)


@click.command("resume")
@STREAM
@on_cluster
@TIMEOUT
@WAIT
def resume_command(*, stream: str, **how: Any) -> None:  # noqa: ANN401 # passed on
    """Start the workers of a suspended stream again."""
    _change(suspend_change(stream, suspend=False), **how)


@click.command("restart")
@STREAM
@on_cluster
@TIMEOUT
@WAIT
def restart_command(*, stream: str, **how: Any) -> None:  # noqa: ANN401 # passed on
    """Restart all workers of a stream, one partition at a time."""
    _change(restart_change(stream, datetime.now(UTC)), **how)


class Progress(Protocol):
    """Describes in a line what is still missing; empty if nothing is."""

    def __call__(self, stream: Stream, pods: Mapping[int, Object]) -> str: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class Change:
    """A patch of a stream, and its messages.

    `is_done` returns whether a stream needs no patch. `progress` takes the UIDs of the pods before the patch.
    """

    stream: str
    patch: Object
    verb: str
    done: str
    is_done: Callable[[Stream], bool]
    progress: Callable[[Mapping[int, str]], Progress]


def suspend_change(stream: str, *, suspend: bool) -> Change:
    """Return the change that stops or starts all workers."""
    return Change(
        stream=stream,
        patch={"spec": {"suspend": suspend}},
        verb="suspended" if suspend else "resumed",
        done="all workers are stopped" if suspend else "all partitions are ready",
        is_done=lambda found: found.suspended is suspend,
        progress=lambda _: to_suspend if suspend else to_run,
    )


def restart_change(stream: str, now: datetime) -> Change:
    """Return the change that replaces all pods, one partition at a time."""
    return Change(
        stream=stream,
        patch={"metadata": {"annotations": {RESTART: now.isoformat(timespec="seconds")}}},
        verb="restarts",
        done="all workers were replaced, and all partitions are ready",
        is_done=lambda _: False,
        progress=to_restart,
    )


def carry_out(
    api: Api,
    namespace: str,
    change: Change,
    *,
    timeout_seconds: float | None,
    console: Console,
    clock: Clock,
) -> None:
    """Patch the stream; with a timeout, wait until all partitions follow.

    Raises:
        PluginError: the patch is not allowed, or the partitions did not follow in time.
    """

    def fetch() -> tuple[Stream, Mapping[int, Object]]:
        stream = read_stream(api.stream(namespace, change.stream))
        return stream, by_partition(api.pods(namespace, change.stream))

    before = read_stream(api.stream(namespace, change.stream))
    uids: dict[int, str] = {}
    if timeout_seconds is not None:
        uids = {number: pod["metadata"]["uid"] for number, pod in fetch()[1].items()}
    if change.is_done(before):
        print_line(console, f"{before.title} is {change.verb} already")
    else:
        api.patch_stream(namespace, change.stream, change.patch)
        print_line(console, f"{before.title} {change.verb}")
    warn_if_paused(before, console)
    if timeout_seconds is None:
        return
    progress = change.progress(uids)
    wait_until_done(console, lambda: progress(*fetch()), timeout_seconds, clock)
    print_line(console, f"{before.title}: {change.done}")


def to_suspend(stream: Stream, pods: Mapping[int, Object]) -> str:
    """Describe what is missing until a stream is suspended."""
    if pending := _pending(stream):
        return pending
    if not stream.suspended:
        return "spec.suspend was set back to false"
    if pods:
        return f"partitions {ranges(pods)} have a worker"
    phases = {each.partition: each.phase for each in stream.status.partitions}
    left = [number for number, phase in phases.items() if phase is not PartitionPhase.SUSPENDED]
    return f"partitions {ranges(left)} are not suspended yet" if left else ""


def to_run(stream: Stream, pods: Mapping[int, Object]) -> str:  # noqa: ARG001 # a Progress
    """Describe what is missing until a stream is ready."""
    if (pending := _pending(stream)) or stream.condition("Ready", "True"):
        return pending
    ready = stream.condition("Ready")
    return ready.message if ready else "the operator has not reported it ready yet"


def to_restart(before: Mapping[int, str]) -> Progress:
    """Return the progress of a restart, from the UIDs of the pods `before`."""

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
        return _pending(stream) or f"{done} of {len(before)} restarted, waiting for {ranges(left)}"

    return progress


def _pending(stream: Stream) -> str:
    if stream.paused:
        return PAUSED
    return "" if stream.observed else "the operator has not processed the change yet"


def _change(change: Change, *, api: Api, namespace: str, wait: bool, timeout: int) -> None:
    limit = timeout if wait else None
    carry_out(
        api, namespace, change, timeout_seconds=limit, console=terminal(), clock=current_clock()
    )
