"""The loop, on stand-ins of its reader, output and window."""

from typing import Any

import numpy as np
import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.offsets import NOTHING_READ
from dedupe_worker.dedup.border import NoBorder
from dedupe_worker.dedup.classify import Verdict
from dedupe_worker.dedup.loop import Loop, LoopConfig
from dedupe_worker.dedup.missing_ids import MissingIds
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.status import WorkerState
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.strategies import message


class Skipping:
    """A reader that finds no records, an output, and a window."""

    topic = "raw"
    last_read = NOTHING_READ
    position = complete_up_to = 7
    own = ()

    def __init__(self) -> None:
        self.next_offset = 500
        self.calls: list[Any] = []

    def read(self, *_: object) -> Batch:
        return Batch([], self.next_offset, 0)

    def end_offset(self) -> int:
        return self.next_offset

    def begin(self) -> None:
        self.calls.append("begin")

    def commit(self, next_offset: int = 0, _: object = None, **stamp: object) -> None:
        self.calls.append(stamp or next_offset)

    def age(self, _: int) -> None: ...


@pytest.fixture
def skipping() -> Skipping:
    return Skipping()


@pytest.fixture
def loop(skipping: Skipping, worker_state: WorkerState) -> Loop:
    clock = StillClock()
    stand_in: Any = skipping
    return Loop(
        LoopConfig(
            input_topic="raw",
            partition=0,
            commit_interval_seconds=0.1,
            longest_commit_interval_seconds=0.1,
            max_batch_records=10,
            max_transaction_records=10,
        ),
        reader=stand_in,
        output=stand_in,
        window=stand_in,
        classifier=stand_in,
        logs=(),
        border=NoBorder(),
        missing_ids=MissingIds(DedupeStream.model_validate(MINIMAL).spec.id, worker_state),
        worker_state=worker_state,
        clock=clock,
    )


@pytest.fixture
def worker_state() -> WorkerState:
    return WorkerState(DedupeStream.model_validate(MINIMAL), 0, StillClock())


@pytest.mark.parametrize(("with_id", "reasons"), [([0, 1, 2], []), ([1], [("MissingIds", 2)])])
def test_records_without_an_id_are_a_degraded_reason(
    loop: Loop, worker_state: WorkerState, with_id: list[int], reasons: list[tuple[str, int]]
) -> None:
    records = [message(offset, None) for offset in range(3)]
    loop._count(Verdict(np.ones(3, np.bool_)), records, np.array(with_id))  # noqa: SLF001 (what each batch calls)
    found = [(each.reason, each.count) for each in worker_state.degradations.current()]
    assert found == reasons
    assert worker_state.tally.without_id == 3 - len(with_id)


def test_a_long_stretch_without_records_is_committed_once(loop: Loop, skipping: Skipping) -> None:
    """The next start need not read it again."""
    skipping.next_offset += 2_000_000
    loop.step()
    begin, committed, stamp = skipping.calls
    assert (begin, committed) == ("begin", 2_000_500)
    assert (stamp["input_offset"], stamp["output_position"]) == (2_000_500, 7)
    assert not loop.in_transaction
    loop.step()
    assert len(skipping.calls) == 3


def test_markers_alone_are_not_worth_a_commit(loop: Loop, skipping: Skipping) -> None:
    for _ in range(50):
        skipping.next_offset += 1
        loop.step()
    assert skipping.calls == []
