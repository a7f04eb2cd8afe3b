"""How often a partition commits, and how long a record waits for it."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.spec.worker import Tuning
from dedupe_kafka.offsets import NOTHING_READ
from dedupe_worker.dedup.border import NoBorder
from dedupe_worker.dedup.loop import Loop, LoopConfig
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.status import WorkerState
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.strategies import message

_IDLE_SECONDS = 0.5


class Arriving:
    """A reader, an output and a window, whose records arrive at given times."""

    position = complete_up_to = 0
    last_read = NOTHING_READ
    own = ()

    def __init__(self, clock: StillClock, arrivals: list[float]) -> None:
        self.next_offset = 0
        self.clock = clock
        self.arrivals = [clock.seconds + each for each in arrivals]
        self.committed: list[float] = []
        self.idle = False

    def read(self, max_records: int, wait_seconds: float) -> Batch:
        """Wait as `PartitionReader` does: while it is idle, for the first record at first."""
        now = self.clock.seconds
        if self.idle:
            first = self.arrivals[self.next_offset] if self.left else now + _IDLE_SECONDS
            now = min(max(now, first), now + _IDLE_SECONDS)
            wait_seconds = wait_seconds if self.left and first <= now else 0.0
        self.clock.seconds = now + wait_seconds
        there = [at for at in self.arrivals[self.next_offset :] if at <= self.clock.seconds]
        records = [message(0, b"k") for _ in there[:max_records]]
        self.idle = not records
        self.next_offset += len(records)
        return Batch(records, self.next_offset, 0)

    @property
    def left(self) -> int:
        return len(self.arrivals) - self.next_offset

    def commit(self, *_: object, **of_the_window: object) -> None:
        if not of_the_window:
            self.committed.append(self.clock.seconds)

    def end_offset(self) -> int:
        return len(self.arrivals)

    def begin(self) -> None: ...
    def age(self, _: int) -> None: ...


def commits(arrivals: list[float], *, shortest: float, longest: float) -> list[float]:
    """Run a loop until all records are committed; return when it has committed."""
    clock = StillClock()
    began = clock.seconds
    arriving = Arriving(clock, arrivals)
    stand_in: Any = arriving
    loop = Loop(
        LoopConfig(
            input_topic="raw",
            partition=0,
            commit_interval_seconds=shortest,
            longest_commit_interval_seconds=longest,
            max_batch_records=10_000,
            max_transaction_records=10_000,
        ),
        reader=stand_in,
        output=stand_in,
        window=stand_in,
        classifier=stand_in,
        logs=(),
        border=NoBorder(),
        missing_ids=stand_in,
        worker_state=WorkerState(DedupeStream.model_validate(MINIMAL), 0, clock),
        clock=clock,
    )
    loop._process = lambda batch: loop._begin(0, batch.next_offset)  # type: ignore[method-assign]  # noqa: SLF001 (the records do not matter)
    while arriving.left:
        loop.step()
    return [each - began for each in arriving.committed]


@pytest.mark.parametrize("gap", [0.001, 0.03, 0.045, 0.076, 0.083, 0.12, 0.3])
def test_a_partition_commits_no_more_often_than_the_longer_interval(gap: float) -> None:
    """Whatever the gap between its records: all partitions of a stream commit to one broker."""
    arrivals = [gap * number for number in range(int(20 / gap))]
    times = commits(arrivals, shortest=0.025, longest=0.4)
    assert len(times) > 10
    assert min(later - sooner for sooner, later in pairwise(times)) >= 0.399


def test_a_record_after_a_pause_waits_no_longer_than_the_shorter_interval() -> None:
    arrivals = [0.1 * number for number in range(20)] + [5.0, 7.3, 7.9, 8.5]
    times = commits(arrivals, shortest=0.025, longest=0.4)
    for arrival in arrivals[20:]:
        assert min(time - arrival for time in times if time >= arrival) <= 0.026


def test_without_a_longer_interval_the_shorter_one_bounds_the_wait() -> None:
    arrivals = [0.01 * number for number in range(200)]
    times = commits(arrivals, shortest=0.025, longest=0.025)
    waits = [min(time - arrival for time in times if time >= arrival) for arrival in arrivals]
    assert max(waits) <= 0.026
    assert len(times) > 60


@pytest.mark.parametrize(
    ("tuning", "partitions", "seconds"),
    [
        ({}, 1, 0.025),
        ({}, 250, 0.025),
        ({}, 1000, 0.1),
        ({"commitInterval": "200ms"}, 1000, 0.2),
        ({"maxCommitInterval": "40ms"}, 1000, 0.04),
        ({"maxCommitInterval": "1ms"}, 1000, 0.025),
        ({"maxCommitInterval": "1s"}, 1, 1.0),
    ],
)
def test_the_bound_is_the_manifests_or_follows_the_partitions(
    tuning: dict[str, str], partitions: int, seconds: float
) -> None:
    found = Tuning.model_validate(tuning).longest_commit_interval(partitions)
    assert found == timedelta(seconds=seconds)
