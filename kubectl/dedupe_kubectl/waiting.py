"""Waiting until a change of a stream has reached all of its partitions."""

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from dedupe_crds.status import PartitionPhase
from dedupe_kubectl.errors import TimedOut
from dedupe_kubectl.objects import Object, Stream, is_ready
from dedupe_kubectl.words import ranges

_POLL_SECONDS: Final = 1.0


class Progress(Protocol):
    """What is still missing, as one line; empty when there is nothing."""

    def __call__(self, stream: Stream, pods: Mapping[int, Object]) -> str: ...  # noqa: D102


def until(
    progress: Progress,
    look: Callable[[], tuple[Stream, Mapping[int, Object]]],
    tell: Callable[[str], None],
    timeout_seconds: float,
) -> None:
    """Look until nothing is missing, and tell what is.

    Raises:
        TimedOut: something still is, after so long.
    """
    deadline = time.monotonic() + timeout_seconds
    while missing := progress(*look()):
        if time.monotonic() >= deadline:
            raise TimedOut(
                f"still waiting after {timeout_seconds:.0f} s: {missing}; "
                "`kubectl dedupe describe-problem` says why"
            )
        tell(missing)
        time.sleep(_POLL_SECONDS)


def to_suspend(stream: Stream, pods: Mapping[int, Object]) -> str:
    """Say what keeps a stream from being suspended."""
    if held := _held(stream):
        return held
    if not stream.suspended:
        return "spec.suspend was set back to false"
    if pods:
        return f"partitions {ranges(pods)} have a worker"
    left = [
        one.partition
        for one in stream.status.partitions
        if one.phase is not PartitionPhase.SUSPENDED
    ]
    return f"partitions {ranges(left)} are not suspended yet" if left else ""


def to_run(stream: Stream, pods: Mapping[int, Object]) -> str:  # noqa: ARG001 # one of several ways to judge
    """Say what keeps a stream from being ready."""
    return _held(stream) or _not_ready(stream)


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
        if left:
            done = len(before) - len(left)
            return _held(stream) or f"{done} of {len(before)} restarted, {ranges(left)} to come"
        return _held(stream) or _not_ready(stream)

    return progress


def _held(stream: Stream) -> str:
    if stream.paused:
        return "the annotation dedupestream.io/pause-reconciliation keeps the operator off it"
    return "" if stream.observed else "the operator has not seen the change yet"


def _not_ready(stream: Stream) -> str:
    if stream.ready:
        return ""
    ready = stream.condition("Ready")
    return ready.message if ready else "the operator has not said that it is ready"
