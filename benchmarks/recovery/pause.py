"""The pause of the output around a checkpoint, at a steady rate of messages.

It is measured from outside: a receiver records when each record of the output arrives, and the longest time between
two of them around a checkpoint is its pause. The same is measured halfway between two checkpoints: records become
visible by whole transactions, so there is always some time between two arrivals.
"""

import time
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed, Process, Worker
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import traffic

RATE: Final = 10_000

_STAGE: Final = "checkpoint"
_WARM_UP_SECONDS: Final = 3.0
_PERIOD_SECONDS: Final = 3.0  # from one checkpoint to the next
_AROUND_SECONDS: Final = 0.1  # before and after a request
_GRACE_SECONDS: Final = 120.0


class Pause(Model):
    """Milliseconds for each checkpoint; `bytes` is the size of the last checkpoint.

    The longest time without a record around it, the same without a checkpoint, the time in which the worker's loop did
    nothing else, and the time of the request.
    """

    rate: int
    bytes: int
    with_ms: list[float]
    without_ms: list[float]
    loop_ms: list[float]
    request_ms: list[float]


class Span(NamedTuple):
    """A time, in nanoseconds of the monotonic clock."""

    start: int
    end: int


class _Made(NamedTuple):
    """A checkpoint: its request, and the milliseconds of the loop's pause."""

    span: Span
    loop_ms: float


def measure_pause(
    testbed: Testbed, worker: Worker, source: str, target: str, checkpoints: int
) -> Pause:
    """Make checkpoints while messages pass. Raises BenchmarkFailed."""
    count = int(RATE * (_WARM_UP_SECONDS + _PERIOD_SECONDS * (checkpoints + 2)))
    before = testbed.end_offset(target)
    times_file, pace_file = (testbed.scratch / f"{target}{end}" for end in (".npy", ".pace"))
    servers = testbed.bootstrap_servers
    expected = len(traffic(count).first_at)
    receiving = (
        "benchmarks.harness.receiver",
        servers,
        target,
        expected,
        times_file,
        "--from",
        before,
    )
    sending = ("benchmarks.harness.pacer", servers, source, count, RATE, pace_file)
    with (
        Process(*receiving, log=times_file.with_suffix(".log")) as receiver,
        Process(*sending, log=pace_file.with_suffix(".log")) as pacer,
    ):
        worker.wait_until(lambda: worker.status().counts.consumed > 0, "messages come")
        _wait_until(time.monotonic() + _WARM_UP_SECONDS)
        made = [_checkpoint(worker) for _ in range(checkpoints)]
        pacer.wait(count / RATE + _GRACE_SECONDS)
        receiver.wait(_GRACE_SECONDS)
    arrivals = np.load(times_file)
    checkpoint = worker.status().checkpoint
    spans = [each.span for each in made]
    if checkpoint is None or spans[-1].end > arrivals[-1]:
        raise BenchmarkFailed(f"messages did not come until the last checkpoint: {checkpoint}")
    half = int(_PERIOD_SECONDS / 2 * 1e9)
    return Pause(
        rate=RATE,
        bytes=checkpoint.bytes,
        with_ms=[longest_gap_ms(arrivals, span) for span in spans],
        without_ms=[
            longest_gap_ms(arrivals, Span(span.start - half, span.end - half)) for span in spans
        ],
        loop_ms=[each.loop_ms for each in made],
        request_ms=[(span.end - span.start) / 1e6 for span in spans],
    )


def longest_gap_ms(arrivals: NDArray[np.int64], span: Span) -> float:
    """Return the longest time between two arrivals of which any part is near a span.

    `arrivals` are in nanoseconds, in order.
    """
    around = int(_AROUND_SECONDS * 1e9)
    first = max(0, int(np.searchsorted(arrivals, span.start - around, "right")) - 1)
    last = int(np.searchsorted(arrivals, span.end + around, "left"))
    return float(np.diff(arrivals[first : last + 1]).max(initial=0)) / 1e6


def _checkpoint(worker: Worker) -> _Made:
    """Take a checkpoint, a period after the last one."""
    _wait_until(time.monotonic() + _PERIOD_SECONDS)
    before = worker.stage_seconds()[1].get(_STAGE, 0.0)
    start = time.monotonic_ns()
    worker.post("/checkpoint")
    span = Span(start, time.monotonic_ns())
    return _Made(span, (worker.stage_seconds()[1][_STAGE] - before) * 1000)


def _wait_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
