"""A router's input that loses records which were read, and continues where a person says so."""

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from dedupe_crds.spec.input import AcceptedTruncation
from dedupe_growth.routed_offsets import routed_up_to
from dedupe_kafka.offsets import LastRead
from dedupe_router.lost_tail import LostTails
from dedupe_router.reader import InputReader
from tests.unit.router.group import FakeGroup, FakeStarts, end, reader_of, record
from tests.unit.worker.still_clock import StillClock

A, B = ("raw", 0), ("raw", 1)
READ = LastRead(100, 2)


def lost(offset: int = 60, epoch: int = 1) -> Message:
    """Return the report about raw/0 if the leader has other records, or none, from an offset on."""
    text = (
        f"Partition log truncation detected at offset 100 (leader epoch 2): broker end offset is {offset} (offset "
        f"leader epoch {epoch}). Reset to INVALID.: Local: Partition log truncation detected (broker 1)"
    )
    error = KafkaError(KafkaError._AUTO_OFFSET_RESET, text)  # noqa: SLF001 (a public name)
    return Message(topic="raw", partition=0, error=error)


class Scene:
    """A reader of raw/0, of which all up to offset 103 is committed, and of raw/1."""

    def __init__(self, *accepted: AcceptedTruncation) -> None:
        self.group, self.starts = FakeGroup(), FakeStarts()
        self.starts.offsets[A], self.starts.last_read[A] = 103, READ
        self.starts.epochs[A] = 7
        self.warned: dict[str, str] = {}
        tails = LostTails(accepted, self.warned.__setitem__)
        self.reader = reader_of(self.group, self.starts, tails)
        self.group.give(A, B)

    def read(self, *arrives: Message) -> InputReader:
        self.group.arrives = list(arrives)
        self.reader.read(10)
        return self.reader

    def later(self) -> None:
        assert isinstance(self.reader.clock, StillClock)
        self.reader.clock.sleep(60)
        self.read()


def accepted(offset: int = 60, epoch: int = 2, partition: int = 0) -> AcceptedTruncation:
    return AcceptedTruncation(topic="raw", partition=partition, offset=offset, epoch=epoch)


def told(offsets: Sequence[TopicPartition]) -> dict[tuple[str, int], tuple[int, LastRead]]:
    return {(each.topic, each.partition): (each.offset, routed_up_to(each)) for each in offsets}


def test_a_start_asks_the_leader_for_the_last_record() -> None:
    scene = Scene()
    assert (scene.group.assigned, scene.group.sought) == ({A: 100, B: 0}, {A: 100})
    assert scene.group.sought_epochs == {A: 2}


def test_markers_that_a_start_reads_again_stay_committed() -> None:
    scene = Scene()
    after = told(scene.reader.offsets_after([], 7))
    assert A not in after
    scene.read(end("raw", 0, 103))
    assert A not in told(scene.reader.offsets_after([], 7))
    after = told(scene.reader.offsets_after([], 8))  # of a newer epoch of the stream
    assert after[A] == (103, READ)


def test_records_in_the_place_of_lost_markers_are_read() -> None:
    scene = Scene()
    reader = scene.read(record(offset=100, leader_epoch=3), end("raw", 0, 101))
    assert told(reader.offsets_after(reader.pending, 7))[A] == (101, LastRead(101, 3))


def test_the_leader_epoch_of_the_last_record_is_committed() -> None:
    scene = Scene()
    reader = scene.read(
        record(offset=103, leader_epoch=3),
        record(offset=104, leader_epoch=4),
        end("raw", 0, 107),
    )
    assert told(reader.offsets_after(reader.pending[:1], 7))[A] == (104, LastRead(104, 3))
    offsets = reader.offsets_after(reader.pending, 7)
    assert told(offsets)[A] == (107, LastRead(105, 4))
    reader.mark_committed(2, offsets)
    assert reader.offsets_after([], 7) == []


def test_a_broker_without_leader_epochs_is_read_as_before() -> None:
    scene = Scene()
    reader = scene.read(record(offset=103))
    assert told(reader.offsets_after(reader.pending, 7))[A] == (104, LastRead())


def test_a_loss_holds_its_partition_alone() -> None:
    scene = Scene()
    reader = scene.read(lost(), record(partition=1, offset=0))
    [held] = reader.held_by
    assert held.reason == "InputTruncated"
    assert "raw/0 was read up to offset 103" in str(held)
    assert "{topic: raw, partition: 0, offset: 60, epoch: 2}" in str(held)
    assert list(told(reader.offsets_after(reader.pending, 7))) == [B]
    for _ in range(2):
        scene.later()
        scene.read(lost())
        assert [each.reason for each in reader.held_by] == ["InputTruncated"]
    assert scene.warned == {}


@pytest.mark.parametrize(
    "other", [accepted(offset=59), accepted(epoch=1), accepted(partition=1)], ids=str
)
def test_what_was_accepted_is_no_other_loss(other: AcceptedTruncation) -> None:
    scene = Scene(other)
    scene.read(lost())
    scene.later()
    assert scene.group.assigned[A] == 100
    assert scene.warned == {}


def test_an_accepted_loss_continues_where_the_logs_part() -> None:
    scene = Scene(accepted())
    reader = scene.read(lost())
    scene.read(record(offset=60, leader_epoch=3))
    assert (scene.group.assigned[A], scene.group.sought_epochs[A]) == (60, 1)
    assert "raw/0 was routed up to offset 103" in scene.warned["InputTruncated"]
    # Committed before the first record is routed, by number and epoch of the record that is left.
    starts = reader.new_starts(7)
    assert told(starts)[A] == (60, LastRead(60, 1))
    reader.mark_committed(0, starts)
    assert A not in told(reader.new_starts(7))
    assert told(reader.offsets_after(reader.pending, 7))[A] == (61, LastRead(61, 3))
    assert reader.held_by == []


def test_an_accepted_loss_of_all_records_continues_at_the_beginning() -> None:
    scene = Scene(accepted(offset=0))
    scene.read(lost(-1, -1))
    scene.read(record(offset=0, leader_epoch=3))
    assert told(scene.reader.new_starts(7))[A] == (0, LastRead())


def test_a_newer_epoch_of_the_stream_is_waited_for_after_a_loss_as_well() -> None:
    scene = Scene(accepted())
    scene.read(lost())
    scene.read()
    assert scene.reader.epoch_of(A) == 7
    scene.reader.hold(A)
    assert A not in told(scene.reader.new_starts(6))


def test_what_is_not_committed_yet_is_no_loss() -> None:
    """Ask first for what is committed: only against that counts where the logs part."""
    scene = Scene(accepted(offset=101))
    reader = scene.read(record(offset=103, leader_epoch=2), lost(offset=101))
    assert [each.reason for each in reader.held_by] == ["OffsetOutOfRange"]
    assert reader.pending == []
    scene.read(record(offset=101, leader_epoch=3))
    assert (scene.group.assigned[A], scene.group.sought_epochs[A]) == (100, 2)
    assert told(reader.offsets_after(reader.pending, 7))[A] == (102, LastRead(102, 3))
    assert scene.warned == {}


def test_an_accepted_loss_goes_with_its_partition() -> None:
    scene = Scene(accepted())
    scene.read(lost())
    scene.group.take(A)
    scene.starts.last_read[A] = LastRead(70, 4)  # by another router meanwhile
    scene.group.give(A)
    assert (scene.group.assigned[A], scene.group.sought_epochs[A]) == (70, 4)


def test_a_held_record_is_read_again_with_the_epoch_of_the_one_before() -> None:
    scene = Scene()
    error = KafkaError(KafkaError._BAD_MSG, "failed CRC32C check")  # noqa: SLF001 (a public name)
    corrupt = Message(topic="raw", partition=0, offset=105, error=error)
    scene.read(record(offset=103, leader_epoch=3), end("raw", 0, 105), corrupt)
    scene.later()
    assert (scene.group.sought[A], scene.group.sought_epochs[A]) == (104, 3)


def test_a_leader_that_cannot_be_asked_is_asked_again() -> None:
    scene = Scene()
    scene.group.take(A)
    scene.group.seek_fails = KafkaException(KafkaError(KafkaError._STATE))  # noqa: SLF001 (a public name)
    scene.group.give(A)
    assert A not in scene.group.assigned
    assert scene.reader.held_by
    scene.group.seek_fails = None
    scene.read()
    scene.read(record(offset=103, leader_epoch=3))
    assert scene.reader.held_by == []
