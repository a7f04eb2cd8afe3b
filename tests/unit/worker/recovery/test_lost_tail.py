"""Starts on an input that has lost records which were read."""

from collections.abc import Sequence
from threading import Event
from typing import cast

import pytest

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.input import AcceptedTruncation
from dedupe_kafka.errors import BrokerUnavailable, Stopped
from dedupe_kafka.fetch_errors import InputTruncated, truncated
from dedupe_kafka.offsets import NOTHING_READ, LastRead
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.consumer import Batch, OffsetOutOfRange, PartitionReader
from dedupe_worker.recovery.lost_tail import Known, LostTail, furthest
from dedupe_worker.store.metadata import NO_RECORDS, StoreMetadata, last_read_of, next_metadata
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.stores import stamp

PLACE = ("raw", 0)
READ = LastRead(100, 5)


class Reader:
    """A partition that parts at an offset, or whose broker says something else."""

    topic, partition = PLACE

    def __init__(self, answer: Exception | None, end: int | None = None) -> None:
        self.answer, self.end = answer, end
        self.asked: list[tuple[int, LastRead]] = []

    def seek(self, offset: int, read: LastRead) -> None:
        self.asked.append((offset, read))

    def read(self, _most: int, _seconds: float) -> Batch:
        if self.answer is not None:
            raise self.answer
        return Batch([], 0, 0)

    def end_offset(self) -> int | None:
        return self.end

    def close(self) -> None: ...


def parts_at(offset: int, epoch: int = 4) -> InputTruncated:
    return truncated(PLACE, 100, READ, LastRead(offset, epoch))


def accepted(offset: int, epoch: int = 5, partition: int = 0) -> AcceptedTruncation:
    return AcceptedTruncation(topic="raw", partition=partition, offset=offset, epoch=epoch)


def tail(
    reader: Reader, accepted: Sequence[AcceptedTruncation] = (), clock: Clock = SYSTEM_CLOCK
) -> LostTail:
    return LostTail(lambda: cast("PartitionReader", reader), accepted, clock, Event())


@pytest.mark.parametrize(
    ("committed", "stored", "known"),
    [
        (None, None, Known(-1)),
        (Committed(70, None), stamp(1, 80), Known(80)),
        (Committed(70, None, epoch=6), stamp(1, 1000, "1000@5"), Known(70, LastRead(70, 6))),
        (Committed(70, None, epoch=4), stamp(1, 60, "58@5"), Known(60, LastRead(58, 5))),
        (Committed(70, "o::i:~66", epoch=5), stamp(1, 60, "58@5"), Known(70, LastRead(66, 5))),
        (Committed(70, None, epoch=6), stamp(1, 1000), Known(1000)),  # of a release before
        (Committed(70, None), stamp(1, 70, "70@5"), Known(70, LastRead(70, 5))),
    ],
)
def test_a_later_leader_epoch_is_further_and_then_the_offset(
    committed: Committed | None, stored: StoreMetadata | None, known: Known
) -> None:
    assert furthest(committed, stored) == known


@pytest.mark.parametrize(
    ("known", "end"), [(Known(100, READ), 100), (Known(110, READ), 100), (Known(100), 60)]
)
def test_the_broker_is_asked_by_the_reader_alone_if_nothing_shows_a_loss(
    known: Known, end: int
) -> None:
    reader = Reader(parts_at(60))
    assert tail(reader).accepted_parting(PLACE, known, end) is None
    assert reader.asked == []


@pytest.mark.parametrize(
    "others",
    [(), (accepted(59),), (accepted(60, epoch=6),), (accepted(60, partition=1),)],
)
def test_a_loss_waits_until_it_is_accepted_itself(others: Sequence[AcceptedTruncation]) -> None:
    reader = Reader(parts_at(60))
    with pytest.raises(InputTruncated, match="offset: 60, epoch: 5") as raised:
        tail(reader, others).accepted_parting(PLACE, Known(110, READ), 90)
    assert raised.value.parting == LastRead(60, 4)
    assert reader.asked == [(100, READ)]


def test_an_accepted_loss_continues_where_the_logs_part_also_when_the_log_has_grown() -> None:
    for end in (90, 170):
        found = tail(Reader(parts_at(60)), [accepted(60)]).accepted_parting(
            PLACE, Known(110, READ), end
        )
        assert found == LastRead(60, 4)


def test_an_entry_without_a_loss_changes_nothing() -> None:
    known = Known(110, READ)
    for reader in (Reader(None, end=170), Reader(OffsetOutOfRange("of an old broker"))):
        assert tail(reader, [accepted(60)]).accepted_parting(PLACE, known, 170) is None


def test_a_broker_that_does_not_answer_is_asked_again_by_the_next_session() -> None:
    clock = StillClock()

    class Slow(Reader):
        def read(self, most: int, seconds: float) -> Batch:
            clock.sleep(seconds)
            return super().read(most, seconds)

    asking = tail(Slow(None), [accepted(60)], clock)
    with pytest.raises(BrokerUnavailable, match="raw/0"):
        asking.accepted_parting(PLACE, Known(110, READ), 170)
    asking.stop.set()
    with pytest.raises(Stopped):
        asking.accepted_parting(PLACE, Known(110, READ), 170)


@pytest.mark.parametrize(
    ("offset", "read", "kept"),
    [
        (120, LastRead(115, 6), LastRead(115, 6)),
        (120, LastRead(130, 6), LastRead(120, 6)),  # it has read ahead
        (100, NOTHING_READ, READ),  # a catch-up writes at the offset that stands
        (120, NOTHING_READ, NOTHING_READ),
    ],
)
def test_a_store_keeps_the_last_record_before_its_input_offset(
    offset: int, read: LastRead, kept: LastRead
) -> None:
    latest = stamp(1, 100, "100@5")
    written = next_metadata(
        latest,
        latest,
        output_position=2,
        input_offset=offset,
        added=0,
        seen_ms=0,
        newest_ms=0,
        input_topic="t",
        last=NO_RECORDS._replace(read_up_to=read),
        aged_ms=0,
    )
    assert last_read_of(written) == kept
    assert last_read_of(written.of_new_input("other")) == NOTHING_READ
