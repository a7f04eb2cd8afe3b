"""Reading several outputs, each up to its end, which may become known later."""

import json
from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized
from dedupe_kafka.fetch_progress import FetchProgress
from dedupe_worker.kafka.consumer import OffsetOutOfRange
from dedupe_worker.kafka.output_reader import OutputReader
from tests.unit.worker.still_clock import StillClock

END = KafkaError._PARTITION_EOF  # noqa: SLF001 (a public name)
STARVED_SECONDS = 20


def record(partition: int, offset: int) -> Message:
    return Message(topic="clean", partition=partition, offset=offset, value=b"v")


def event(partition: int, offset: int, code: int = END, *, retriable: bool = False) -> Message:
    error = KafkaError(code, retriable=retriable)
    return Message(topic="clean", partition=partition, offset=offset, error=error)


class FakeConsumer:
    """Delivers what a test says; each read takes the time that it may."""

    def __init__(self, clock: StillClock) -> None:
        self.clock = clock
        self.arrives: list[Message] = []
        self.fails: KafkaException | None = None
        self.highs: dict[int, int] = {}
        self.assigned: dict[int, int] = {}
        self.paused: list[int] = []
        self.closed = False

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert {each.topic for each in partitions} <= {"clean"}
        self.assigned = {each.partition: each.offset for each in partitions}

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused += [each.partition for each in partitions]

    def resume(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self.paused.remove(each.partition)

    def consume(self, most: int, seconds: float) -> list[Message]:
        self.clock.sleep(seconds)
        if self.fails:
            raise self.fails
        found, self.arrives = self.arrives[:most], self.arrives[most:]
        return found

    def get_watermark_offsets(self, at: TopicPartition, *, cached: bool) -> tuple[int, int]:
        assert cached
        return 0, self.highs.get(at.partition, -1001)

    def close(self) -> None:
        self.closed = True


class FakeHidden:
    """Says of which partitions all is hidden."""

    def __init__(self) -> None:
        self.partitions: set[int] = set()
        self.asked: list[dict[int, int]] = []
        self.shown = False

    def are_all(self, positions: Mapping[int, int]) -> bool:
        self.asked.append(dict(positions))
        self.shown = positions.keys() <= self.partitions
        return self.shown

    def are_gone(self) -> None:
        self.shown = False


class Reading:
    """A reader of the partitions 0 and 1, from offsets 10 and 20 on."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.consumer = FakeConsumer(self.clock)
        self.hidden = FakeHidden()
        self.fetched = FetchProgress()
        self.reader = OutputReader(self.consumer, "clean", self.clock, self.hidden, self.fetched)
        self.reader.seek({0: 10, 1: 20}, {0: 10, 1: 20})

    def read(self, *arrives: Message) -> list[tuple[int, list[int | None]]]:
        self.consumer.arrives += arrives
        return [
            (run.partition, [each.offset() for each in run.records]) for run in self.reader.read()
        ]

    def read_for(self, seconds: float) -> None:
        """Read again and again, while nothing arrives."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.read()


@pytest.fixture
def at() -> Reading:
    return Reading()


def test_each_partition_is_read_from_its_position_on(at: Reading) -> None:
    assert at.consumer.assigned == {0: 10, 1: 20}
    assert at.reader.positions == {0: 10, 1: 20}
    assert at.read() == []


def test_neighbouring_records_of_a_partition_are_one_run(at: Reading) -> None:
    found = at.read(record(0, 10), record(0, 12), record(1, 20), record(0, 13))
    assert found == [(0, [10, 12]), (1, [20]), (0, [13])]
    assert at.reader.positions == {0: 14, 1: 21}


def test_without_ends_partitions_are_followed(at: Reading) -> None:
    at.read(record(0, 10), event(0, 11), event(1, 20))
    assert not at.reader.at_ends
    assert at.consumer.paused == []
    assert at.read(record(0, 11)) == [(0, [11])]


def test_records_from_the_end_on_are_not_returned(at: Reading) -> None:
    at.reader.stop_at({0: 12, 1: 21})
    found = at.read(*[record(0, each) for each in (10, 11, 12, 13)], record(1, 20))
    assert found == [(0, [10, 11]), (1, [20])]
    assert at.reader.positions == {0: 12, 1: 21}
    assert at.reader.at_ends


def test_all_partitions_must_be_at_their_ends(at: Reading) -> None:
    at.reader.stop_at({0: 11, 1: 21})
    at.read(record(0, 10))
    assert not at.reader.at_ends
    at.read(record(1, 20))
    assert at.reader.at_ends


def test_offsets_without_records_before_an_end_are_passed(at: Reading) -> None:
    """Markers and aborted records: the next record, or the partition's end, is behind them."""
    at.reader.stop_at({0: 15, 1: 25})
    assert at.read(record(0, 17), event(1, 25)) == []
    assert at.reader.positions == {0: 15, 1: 25}
    assert at.reader.at_ends


def test_the_end_of_a_partition_before_the_end_that_was_asked_for_is_waited_for(
    at: Reading,
) -> None:
    """An open transaction hides the rest."""
    at.reader.stop_at({0: 15, 1: 20})
    at.read(event(0, 12))
    assert at.reader.positions[0] == 12
    assert not at.reader.at_ends
    assert at.read(record(0, 12), event(0, 15)) == [(0, [12])]
    assert at.reader.at_ends


def test_a_position_never_goes_back(at: Reading) -> None:
    at.read(record(0, 10), record(0, 11))
    at.read(event(0, 9))
    at.reader.stop_at({0: 5, 1: 5})
    at.read(record(0, 12), event(1, 20))
    assert at.reader.positions == {0: 12, 1: 20}
    assert at.reader.at_ends


def test_ends_before_the_start_leave_nothing_to_read(at: Reading) -> None:
    at.reader.stop_at({0: 0, 1: 20})
    assert at.reader.at_ends
    assert at.reader.unread == 0


def test_a_partition_that_is_at_its_end_is_paused_once(at: Reading) -> None:
    at.reader.stop_at({0: 11, 1: 30})
    at.read(record(0, 10))
    assert at.consumer.paused == []
    at.read(record(1, 20))
    at.read(record(1, 21))
    assert at.consumer.paused == [0]
    at.read(event(1, 30))
    at.read()
    assert at.consumer.paused == [0, 1]


def test_what_is_unread_is_up_to_the_ends_or_else_up_to_what_is_there(at: Reading) -> None:
    at.reader.seek({0: 10, 1: 20}, {0: 50, 1: 20})
    assert at.reader.unread == 40, "before the first fetch"
    at.consumer.highs = {0: 110, 1: 15}
    assert at.reader.unread == 100
    at.reader.stop_at({0: 30, 1: 25})
    assert at.reader.unread == 20 + 5
    at.read(record(0, 10), record(1, 20))
    assert at.reader.unread == 19 + 4


# -- what goes wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE])  # noqa: SLF001
def test_records_that_were_deleted_before_they_were_read_are_not_skipped(
    at: Reading, code: int
) -> None:
    with pytest.raises(OffsetOutOfRange, match="offset 20 of clean/1 does not exist"):
        at.read(event(1, 20, code))


def test_an_error_in_place_of_records_has_a_name(at: Reading) -> None:
    with pytest.raises(NotAuthorized, match="reading clean/1"):
        at.read(event(1, 20, KafkaError.TOPIC_AUTHORIZATION_FAILED))


def test_an_error_that_passes_by_itself_moves_nothing(at: Reading) -> None:
    passing = event(0, 99, KafkaError.NOT_LEADER_FOR_PARTITION, retriable=True)
    assert at.read(passing, record(0, 10)) == [(0, [10])]
    assert at.reader.positions == {0: 11, 1: 20}


def test_an_error_of_a_call_has_a_name(at: Reading) -> None:
    at.consumer.fails = KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    with pytest.raises(NotAuthorized, match="reading clean"):
        at.read()


def test_a_reader_that_gets_nothing_of_what_is_there_connects_again(at: Reading) -> None:
    at.reader.stop_at({0: 30, 1: 20})
    began = at.clock.monotonic()
    with pytest.raises(BrokerUnavailable, match="20 offsets are left"):
        at.read_for(2 * STARVED_SECONDS)
    assert at.clock.monotonic() - began == pytest.approx(STARVED_SECONDS, abs=1)


def test_a_reader_that_never_gets_a_connection_tries_another(at: Reading) -> None:
    at.reader.seek({0: 10, 1: 20}, {0: 50, 1: 20})
    with pytest.raises(BrokerUnavailable, match="40 offsets are left"):
        at.read_for(2 * STARVED_SECONDS)


def test_a_reader_that_gets_records_is_not_starved(at: Reading) -> None:
    at.reader.stop_at({0: 500, 1: 20})
    for offset in range(10, 200):
        at.read(record(0, offset))


def test_a_partition_of_which_nothing_comes_is_named_though_others_do(at: Reading) -> None:
    at.reader.stop_at({0: 50, 1: 5000})

    def read_the_other() -> None:
        for offset in range(20, 5000):
            at.read(record(1, offset))

    with pytest.raises(BrokerUnavailable, match="nothing of clean/0 is fetched, although 40 "):
        read_the_other()


def test_a_long_stretch_of_aborted_records_is_not_starvation(at: Reading) -> None:
    """The client drops them, and only its statistics show that it fetches."""
    at.reader.stop_at({0: 900_000, 1: 20})
    for offset in range(10, 900_000, 30_000):
        partitions = {"0": {"next_offset": offset}}
        at.fetched(json.dumps({"topics": {"clean": {"partitions": partitions}}}))
        at.read_for(STARVED_SECONDS / 4)


def test_a_reader_that_waits_for_new_records_is_not_starved(at: Reading) -> None:
    at.consumer.highs = {0: 10, 1: 20}
    at.read_for(2 * STARVED_SECONDS)
    at.consumer.highs = {0: 11, 1: 20}
    at.read()


def test_a_reader_waits_for_what_an_open_transaction_hides(at: Reading) -> None:
    at.reader.stop_at({0: 30, 1: 20})
    at.hidden.partitions = {0}
    at.read_for(5.5 * STARVED_SECONDS)
    assert at.hidden.asked == [{0: 10}] * 5
    assert at.hidden.shown
    assert at.read(record(0, 10)) == [(0, [10])]
    assert not at.hidden.shown


def test_a_reader_that_gets_nothing_when_a_transaction_has_ended_connects_again(
    at: Reading,
) -> None:
    at.consumer.highs = {0: 30, 1: 30}
    at.hidden.partitions = {0, 1}
    at.read_for(1.5 * STARVED_SECONDS)
    at.hidden.partitions = {0}
    with pytest.raises(BrokerUnavailable, match="30 offsets are left"):
        at.read_for(STARVED_SECONDS)


def test_a_reader_closes_its_consumer(at: Reading) -> None:
    at.hidden.shown = True
    at.reader.close()
    assert not at.hidden.shown
    assert at.consumer.closed


# -- one group after the other -------------------------------------------------------------------------


def test_a_group_is_read_once_what_was_there_of_those_before_is_read() -> None:
    at = Reading()
    at.reader.seek({0: 10, 1: 20, 2: 30}, {0: 12, 1: 22, 2: 30}, [[0], [1], [2]])
    assert at.consumer.paused == [1, 2]
    at.read(record(0, 10))
    at.read(record(0, 11))
    at.read(event(0, 15))
    assert at.consumer.paused == [2], "what arrives later of an earlier group is not waited for"
    at.read(record(1, 20), event(1, 22))
    at.read()
    assert at.consumer.paused == []


def test_an_end_before_what_is_there_ends_the_wait_for_a_group() -> None:
    at = Reading()
    at.reader.seek({0: 10, 1: 20}, {0: 12, 1: 22}, [[0], [1]])
    at.reader.stop_at({0: 11, 1: 20})
    at.read(record(0, 10))
    at.read()
    assert at.reader.at_ends
    assert at.consumer.paused == [1, 1, 0], "and what is at its end is not read on"


def test_a_group_that_is_not_read_yet_is_not_taken_for_one_that_starves() -> None:
    at = Reading()
    at.hidden.partitions = {0}
    at.reader.seek({0: 10, 1: 20}, {0: 12, 1: 22}, [[0], [1]])
    for _ in range(300):
        at.read()
    assert at.hidden.asked[0] == {0: 10}
