"""Which of the records that come are wanted, and when to jump; played with what a client may hand out."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dedupe_filters import range_consumer
from dedupe_filters.range_consumer import RangeConsumer
from dedupe_filters.range_progress import Progress
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.offsets import OffsetRange

END = 60


def record(offset: int) -> Message:
    return Message(topic="t", partition=0, offset=offset)


@st.composite
def ranges(draw: st.DrawFn) -> list[OffsetRange]:
    cuts = sorted(draw(st.sets(st.integers(0, END), min_size=2, max_size=10)))
    return [OffsetRange(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]


@given(ranges(), st.sets(st.integers(0, END - 1)), st.data())
def test_what_is_read_is_what_is_in_the_spans(
    wanted: list[OffsetRange], there: set[int], data: st.DataObject
) -> None:
    """Offsets have gaps; a fetch brings some of the next records and, at the end, says so."""
    progress, log = Progress(wanted), sorted(there)
    position, got = progress.next_offset, []

    while not progress.is_done:
        ahead = [offset for offset in log if offset >= position]
        batch = ahead[: data.draw(st.integers(1, 20))]
        got += [kept.offset() for kept in progress.take([record(offset) for offset in batch])]
        position = batch[-1] + 1 if batch else END
        if not batch:
            progress.reach(END)
        if not progress.is_done and (to := progress.jump()) is not None:
            assert to >= position
            position = to

    assert got == [o for o in log if any(each.low <= o < each.end for each in wanted)]


def test_what_comes_again_is_not_taken_again() -> None:
    progress = Progress([OffsetRange(0, 4)])
    progress.take([record(0), record(1)])

    assert [kept.offset() for kept in progress.take([record(1), record(2)])] == [2]


def test_a_span_that_ends_where_nothing_is_ends_with_the_partition() -> None:
    progress = Progress([OffsetRange(0, 3)])
    progress.take([record(0)])
    assert (progress.is_done, progress.missing) == (False, 2)

    progress.reach(3)

    assert progress.is_done


def test_a_span_that_has_come_with_the_last_is_not_jumped_to() -> None:
    progress = Progress([OffsetRange(0, 2), OffsetRange(3, 6)])

    kept = progress.take([record(offset) for offset in range(5)])

    assert [one.offset() for one in kept] == [0, 1, 3, 4]
    assert progress.jump() is None
    assert progress.missing == 1


def test_a_span_further_on_is_jumped_to_once() -> None:
    progress = Progress([OffsetRange(0, 2), OffsetRange(30, 31)])
    progress.take([record(0), record(1)])

    assert progress.jump() == 30
    assert progress.jump() is None


class Stretch:
    """A consumer that fetches for five minutes before its only record, at offset 100."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._tell: Callable[[str], None] = config["stats_cb"]
        self.seconds = 0.0
        self.next_offsets = iter(range(10, 110, 10))

    def poll(self, _seconds: float) -> Message | None:
        self.seconds += 30
        partitions = {"0": {"next_offset": next(self.next_offsets)}}
        self._tell(json.dumps({"topics": {"t": {"partitions": partitions}}}))
        return record(100) if self.seconds >= 300 else None

    def consume(self, *_: object) -> list[Message]:
        return []

    def assign(self, _: object) -> None: ...

    def unassign(self) -> None: ...


@pytest.mark.parametrize("fetches", [True, False])
def test_a_long_stretch_of_aborted_records_is_progress_and_a_silent_broker_is_not(
    monkeypatch: pytest.MonkeyPatch, *, fetches: bool
) -> None:
    """The client delivers nothing in both cases."""
    opened: list[Stretch] = []

    def open_(config: dict[str, Any]) -> Stretch:
        opened.append(Stretch(config))
        if not fetches:
            opened[0].next_offsets = iter([10] * 10)
        return opened[0]

    monkeypatch.setattr(range_consumer, "Consumer", open_)
    monkeypatch.setattr("dedupe_filters.range_consumer.time.monotonic", lambda: opened[0].seconds)
    told: list[str] = []
    reading = RangeConsumer({"stats_cb": told.append}, "t").read({0: [OffsetRange(0, 101)]})
    if fetches:
        assert [each.offset() for batch in reading for each in batch] == [100]
    else:
        with pytest.raises(BrokerUnavailable, match="no record for 60 s"):
            next(reading)
    assert told  # the caller's own callback as well
