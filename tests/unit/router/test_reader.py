"""What a router reads, and what becomes of it when the group decides anew."""

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from dedupe_kafka.errors import BrokerUnavailable, NoLeader, NotAuthorized, StreamError
from dedupe_router.reader import InputReader
from tests.unit.router.group import FakeGroup, FakeStarts, end, reader_of, record
from tests.unit.worker.still_clock import StillClock

A, B = ("raw", 0), ("raw", 1)


@pytest.fixture
def group() -> FakeGroup:
    return FakeGroup()


@pytest.fixture
def reader(group: FakeGroup) -> InputReader:
    made = reader_of(group)
    group.give(A, B)
    return made


def offsets(records: list[Message]) -> list[tuple[int | None, int | None]]:
    return [(each.partition(), each.offset()) for each in records]


def commits(reader: InputReader, count: int | None = None) -> dict[tuple[str, int], int]:
    records = reader.pending[:count]
    return {(each.topic, each.partition): each.offset for each in reader.offsets_after(records, 0)}


def test_it_starts_where_the_group_has_committed(group: FakeGroup) -> None:
    starts = FakeStarts()
    starts.offsets[A] = 7
    reader_of(group, starts)
    group.give(A, B)
    assert group.assigned == {A: 7, B: 0}


def test_records_wait_until_they_are_committed(group: FakeGroup, reader: InputReader) -> None:
    group.arrives = [record(offset=0), record(partition=1, offset=0), record(offset=1)]
    reader.read(10)
    assert offsets(reader.pending) == [(0, 0), (1, 0), (0, 1)]
    assert commits(reader) == {A: 2, B: 1}
    reader.mark_committed(3, reader.offsets_after(reader.pending, 0))
    assert (reader.pending, commits(reader)) == ([], {})


def test_a_part_of_what_waits_is_committed_up_to_its_end(
    group: FakeGroup, reader: InputReader
) -> None:
    group.arrives = [record(offset=0), record(partition=1, offset=0), record(offset=1)]
    reader.read(10)
    assert commits(reader, 1) == {A: 1}
    assert commits(reader, 2) == {A: 1, B: 1}


def test_a_start_and_the_markers_at_an_end_are_committed_without_records(
    group: FakeGroup, reader: InputReader
) -> None:
    assert commits(reader) == {A: 0, B: 0}
    group.arrives = [end("raw", 0, 3)]
    reader.read(10)
    assert commits(reader) == {A: 3, B: 0}
    group.arrives = [end("raw", 0, 2), end("gone", 0, 9)]  # of before, and of no own partition
    reader.read(10)
    assert commits(reader) == {A: 3, B: 0}


@pytest.mark.parametrize("lost", [False, True])
def test_what_waits_goes_with_its_partition(
    group: FakeGroup, reader: InputReader, lost: bool
) -> None:
    group.arrives = [record(offset=0), record(partition=1, offset=0)]
    reader.read(10)
    group.arrives = [lambda: group.take(A, lost=lost)]
    reader.read(10)
    assert offsets(reader.pending) == [(1, 0)]
    assert commits(reader) == {B: 1}
    assert reader.places == [B]


def test_records_of_a_partition_that_is_gone_are_dropped(
    group: FakeGroup, reader: InputReader
) -> None:
    group.arrives = [record(offset=0), lambda: group.take(A), record(offset=1)]
    reader.read(10)
    assert reader.pending == []


@pytest.mark.parametrize(
    ("committed", "kept"), [(0, [(0, 0), (0, 1), (0, 2)]), (1, [(0, 1), (0, 2)])]
)
def test_a_partition_that_comes_back_is_read_once_from_what_is_committed(
    group: FakeGroup, committed: int, kept: list[tuple[int, int]]
) -> None:
    starts = FakeStarts()
    reader = reader_of(group, starts)
    group.give(A)

    def comes_back() -> None:
        group.take(A)
        starts.offsets[A] = committed  # by another router meanwhile
        group.give(A)

    group.arrives = [record(offset=0), record(offset=1), comes_back]
    group.arrives += [record(offset=each) for each in range(committed, 3)]
    reader.read(10)
    assert offsets(reader.pending) == kept


def test_a_record_that_comes_again_is_kept_once(group: FakeGroup, reader: InputReader) -> None:
    group.arrives = [record(offset=0), record(offset=1)]
    reader.read(10)
    group.arrives = [record(offset=1), record(offset=2)]
    reader.read(10)
    assert offsets(reader.pending) == [(0, 0), (0, 1), (0, 2)]


def test_a_start_that_fails_is_raised_by_the_read(group: FakeGroup) -> None:
    starts = FakeStarts()
    reader = reader_of(group, starts)
    starts.fails = BrokerUnavailable("no answer")
    group.arrives = [lambda: group.give(A)]
    with pytest.raises(BrokerUnavailable):
        reader.read(10)


def test_without_a_member_id_nothing_may_be_committed(
    group: FakeGroup, reader: InputReader
) -> None:
    assert reader.membership() == b"metadata of m-1"
    group.member = None
    assert reader.membership() is None


def test_a_membership_that_changes_while_it_is_read_is_none(
    group: FakeGroup, reader: InputReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = iter(["m-1", "m-2"])
    monkeypatch.setattr(group, "memberid", lambda: next(ids))
    assert reader.membership() is None


def test_a_partition_that_waits_is_read_no_further_and_not_committed(
    group: FakeGroup, reader: InputReader
) -> None:
    group.arrives = [record(offset=0), record(partition=1, offset=0), record(offset=1)]
    reader.read(10)
    held = reader.hold(A)
    assert offsets(held) == [(0, 0), (0, 1)]
    assert (offsets(reader.pending), commits(reader), group.paused) == ([(1, 0)], {B: 1}, {A})
    reader.release(A, held)
    assert offsets(reader.pending) == [(0, 0), (0, 1), (1, 0)]
    assert group.paused == set()


def test_the_records_of_a_waiting_partition_that_is_given_away_do_not_come_back(
    group: FakeGroup, reader: InputReader
) -> None:
    group.arrives = [record(offset=0)]
    reader.read(10)
    held = reader.hold(A)
    group.take(A)
    group.give(A)
    reader.release(A, held)
    assert reader.pending == []


def test_a_partition_that_comes_back_is_read_although_it_waited_before(
    group: FakeGroup, reader: InputReader
) -> None:
    reader.hold(A)
    group.take(A)
    assert group.paused == {A}
    group.give(A)
    assert group.paused == set()


def test_a_pause_covers_partitions_that_come_meanwhile(group: FakeGroup) -> None:
    reader = reader_of(group)
    group.give(A)
    reader.pause(paused=True)
    group.give(B)
    assert group.paused == {A, B}
    reader.pause(paused=False)
    assert group.paused == set()


def test_full_of_records_it_still_serves_the_group(group: FakeGroup, reader: InputReader) -> None:
    group.arrives = [record(offset=0), record(offset=1)]
    reader.read(1)
    assert offsets(reader.pending) == [(0, 0)]
    group.arrives = [lambda: group.take(A)]
    reader.read(1)
    assert reader.pending == []


def test_the_lag_of_a_topic_is_known_once_each_partition_is(
    group: FakeGroup, reader: InputReader
) -> None:
    group.ends = {A: 10}
    (found,) = reader.inputs()
    assert (found.topic, found.partitions, found.lag_messages) == ("raw", [0, 1], None)
    group.ends[B] = 5
    assert reader.inputs()[0].lag_messages == 15
    group.arrives = [record(offset=0)]
    reader.read(10)
    reader.mark_committed(1, reader.offsets_after(reader.pending, 0))
    assert reader.inputs()[0].lag_messages == 14


def corrupt(offset: int) -> Message:
    error = KafkaError(KafkaError._BAD_MSG, "failed CRC32C check")  # noqa: SLF001 (a public name)
    return Message(topic="raw", partition=0, offset=offset, error=error)


def test_a_corrupt_batch_holds_its_partition_after_what_stands_before_it(
    group: FakeGroup, reader: InputReader
) -> None:
    group.arrives = [record(offset=0), corrupt(1), record(partition=1, offset=0)]
    group.arrives += [record(offset=99), end("raw", 0, 2**60), record(partition=1, offset=1)]
    reader.read(10)
    assert offsets(reader.pending) == [(0, 0), (1, 0), (1, 1)]
    assert commits(reader) == {A: 1, B: 2}
    [held] = reader.held_by
    assert "at offset 1 of raw/0" in str(held)
    assert group.paused == {A}
    group.arrives = [record(offset=100), end("raw", 0, 101)]
    reader.read(10)
    assert commits(reader) == {A: 1, B: 2}


def test_a_held_partition_is_read_again_from_the_record_that_holds_it(
    group: FakeGroup, reader: InputReader
) -> None:
    group.arrives = [record(offset=0), corrupt(1)]
    reader.read(10)
    assert isinstance(reader.clock, StillClock)
    reader.clock.sleep(60)
    group.arrives = [record(offset=1), record(offset=2)]
    reader.read(10)
    assert group.sought == {A: 1}
    assert offsets(reader.pending) == [(0, 0), (0, 1), (0, 2)]
    assert (reader.held_by, group.paused) == ([], set())


def later(reader: InputReader) -> None:
    assert isinstance(reader.clock, StillClock)
    reader.clock.sleep(60)
    reader.read(10)


def test_a_partition_without_a_start_is_held_and_the_others_are_read(group: FakeGroup) -> None:
    starts = FakeStarts()
    starts.offsets[A] = 7
    starts.held_by[A] = NoLeader("raw/0 has no leader")
    reader = reader_of(group, starts)
    group.give(A, B)
    group.arrives = [record(partition=1, offset=0)]
    reader.read(10)
    assert (group.assigned, commits(reader)) == ({B: 0}, {B: 1})
    assert reader.held_by == [starts.held_by[A]]
    assert reader.new_starts(0) == [TopicPartition("raw", 1, 0)]
    later(reader)
    assert A not in group.assigned
    del starts.held_by[A]
    group.arrives = []
    later(reader)
    assert group.assigned[A] == 7
    group.arrives = [record(offset=7)]
    reader.read(10)
    assert (commits(reader)[A], reader.held_by) == (8, [])


def test_a_held_partition_is_given_away_with_the_others(group: FakeGroup) -> None:
    starts = FakeStarts()
    starts.held_by[A] = NoLeader("raw/0 has no leader")
    reader = reader_of(group, starts)
    group.give(A, B)
    group.take(A, B)
    assert (reader.places, group.assigned, reader.held_by) == ([], {}, [])


def refusal(code: int) -> Message:
    return Message(topic="raw", partition=0, error=KafkaError(code))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (KafkaError._AUTO_OFFSET_RESET, "OffsetOutOfRange"),  # noqa: SLF001 (a public name)
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "NotAuthorized"),
    ],
)
def test_what_kafka_refuses_of_a_partition_holds_it_alone(
    group: FakeGroup, code: int, reason: str
) -> None:
    starts = FakeStarts()
    reader = reader_of(group, starts)
    group.give(A, B)
    group.arrives = [record(offset=0), record(partition=1, offset=0), refusal(code)]
    reader.read(10)
    assert [each.reason for each in reader.held_by] == [reason]
    assert (offsets(reader.pending), commits(reader)) == ([(1, 0)], {B: 1})
    starts.offsets[A] = 3
    reader.read(10)  # found again at once
    assert group.assigned[A] == 3
    assert [each.reason for each in reader.held_by] == [reason]
    group.arrives = [refusal(code)]
    reader.read(10)
    reader.read(10)  # not again: it did not help
    assert A not in group.assigned
    later(reader)
    assert A in group.assigned


def test_a_refusal_of_no_partition_ends_the_session(group: FakeGroup, reader: InputReader) -> None:
    group.arrives = [Message(error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))]
    with pytest.raises(StreamError):
        reader.read(10)


# -- former inputs: the log lists them, and the manifest has them no more ------------------------------


@pytest.fixture
def former(group: FakeGroup) -> InputReader:
    """A reader of A, and of B, whose input is out of the manifest."""
    starts = FakeStarts()
    starts.offsets, starts.former = {A: 3, B: 7}, {B}
    made = reader_of(group, starts)
    group.give(A, B)
    return made


def test_nothing_of_a_former_input_is_read_and_its_offset_gets_each_new_epoch(
    group: FakeGroup, former: InputReader
) -> None:
    assert group.assigned == {A: 3}
    assert former.offsets_after([], 0) == []
    both = former.offsets_after([], 1)
    assert {(each.partition, each.offset, each.metadata) for each in both} == {
        (0, 3, "id-1:1"),
        (1, 7, "id-1:1"),
    }
    former.mark_committed(0, both)
    assert former.offsets_after([], 1) == []
    group.take(B)
    assert (former.places, group.assigned) == ([A], {A: 3})


def test_a_former_input_is_no_input_in_the_status(former: InputReader) -> None:
    assert [(each.topic, each.partitions) for each in former.inputs()] == [("raw", [0])]
    assert former.behind() == {}


def test_a_former_input_gets_no_older_epoch_than_it_has(former: InputReader) -> None:
    former.hold(B)
    assert [each.partition for each in former.offsets_after([], 1)] == [0]
    former.release(B, [])
    assert [each.partition for each in former.offsets_after([], 1)] == [0, 1]


def test_a_former_input_is_not_paused_nor_resumed(group: FakeGroup, former: InputReader) -> None:
    former.pause(paused=True)
    assert group.paused == {A}
    former.pause(paused=False)
    assert group.paused == set()


def test_a_former_input_without_rights_holds_nothing_else(group: FakeGroup) -> None:
    starts, clock = FakeStarts(), StillClock()
    starts.offsets, starts.former = {A: 3, B: 7}, {B}
    starts.held_by = {B: NotAuthorized("raw/1: no READ")}
    reader = reader_of(group, starts)
    reader.clock = clock
    group.give(A, B)
    assert reader.held_by == []
    assert reader.former_held_by() == [starts.held_by[B]]
    assert [each.partition for each in reader.offsets_after([], 1)] == [0]
    starts.held_by = {}
    clock.sleep(20)
    reader.read(10)
    assert (reader.former_held_by(), group.assigned) == ([], {A: 3})
    assert [each.partition for each in reader.offsets_after([], 1)] == [0, 1]
