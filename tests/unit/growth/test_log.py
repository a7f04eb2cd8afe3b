"""Reading the epoch log: what counts, and when it is at its end."""

from collections.abc import Callable
from threading import Event
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from dedupe_growth.entries import (
    Done,
    Entry,
    EpochLogUnreadable,
    Prepare,
    Record,
    Switch,
    encode_entry,
)
from dedupe_growth.epochs import Epochs, epochs_of
from dedupe_growth.log import EpochLogMissing, EpochReader
from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized, Stopped
from tests.simulation.kafka.cluster import record
from tests.simulation.kafka.simple_clock import SimpleClock
from tests.unit.growth.scene import EPOCHS, Scene
from tests.unit.worker.still_clock import StillClock

BEGUN: list[Entry] = [Switch(epoch=0, partitions=2, inputs={"orders": 2}), Done(epoch=0)]
Read = Callable[[EpochReader], Epochs]
PREPARE = Prepare(epoch=1, partitions=4)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_log_is_read_to_its_end_and_later_from_there_on(scene: Scene) -> None:
    reader = scene.reader()
    assert reader.read_to_end() == Epochs()
    scene.enter(*BEGUN)
    assert reader.read_to_end() == epochs_of(BEGUN)
    assert reader.read_to_end() == epochs_of(BEGUN), "nothing is new"
    scene.enter(PREPARE)
    assert reader.read_to_end() == epochs_of([*BEGUN, PREPARE]) == reader.epochs


def test_a_poll_takes_what_has_arrived_and_waits_for_nothing(scene: Scene) -> None:
    reader = scene.reader()
    before = scene.clock.monotonic()
    assert reader.poll() == Epochs()
    scene.enter(*BEGUN)
    assert reader.poll() == epochs_of(BEGUN)
    assert reader.poll() == epochs_of(BEGUN)
    assert scene.clock.monotonic() == before


def test_what_is_not_committed_is_not_in_the_log(scene: Scene) -> None:
    scene.enter(*BEGUN)
    reader = scene.reader()
    writing = scene.cluster.begin_foreign("default.orders.epochs")
    entry = encode_entry(2, PREPARE)
    writing.write(EPOCHS, 0, [record(entry.key, entry.value)])
    assert reader.read_to_end() == epochs_of(BEGUN), "a transaction is open"
    writing.abort()
    assert reader.read_to_end() == epochs_of(BEGUN), "it was aborted"
    scene.enter(PREPARE)
    assert reader.read_to_end() == epochs_of([*BEGUN, PREPARE])


@pytest.mark.parametrize("read", [EpochReader.read_to_end, EpochReader.poll])
@pytest.mark.parametrize("number", [0, 2])
def test_an_entry_with_a_wrong_number_stops_the_reader(
    scene: Scene, read: Read, number: int
) -> None:
    """A number is missing, or an entry was written twice, by two who did not know of each other."""
    scene.write(encode_entry(0, BEGUN[0]), encode_entry(number, PREPARE))
    reader = scene.reader()
    with pytest.raises(EpochLogUnreadable, match="entry 1 of the epoch log is missing"):
        read(reader)
    assert reader.epochs == epochs_of(BEGUN[:1]), "what was before it counts"
    with pytest.raises(EpochLogUnreadable):
        reader.read_to_end()


def test_an_entry_of_a_later_release_stops_the_reader_until_it_is_replaced(scene: Scene) -> None:
    scene.enter(*BEGUN)
    scene.write(Record(b"2", b'{"entry":"shrink","epoch":1}'))
    reader = scene.reader()
    for _ in range(2):
        with pytest.raises(EpochLogUnreadable, match="use the release that wrote it"):
            reader.read_to_end()
    assert reader.epochs == epochs_of(BEGUN)


def test_a_log_whose_first_entries_were_deleted_is_not_read_as_a_shorter_one(scene: Scene) -> None:
    scene.enter(*BEGUN, PREPARE)
    scene.cluster.delete_records(EPOCHS, 0, 2)
    with pytest.raises(EpochLogUnreadable, match="lacks its entries from offset 0 on"):
        scene.reader().read_to_end()


def test_a_log_that_was_deleted_and_created_again_is_not_read_on(scene: Scene) -> None:
    scene.enter(*BEGUN)
    reader = scene.reader()
    reader.read_to_end()
    scene.cluster.recreate_topic(EPOCHS)
    with pytest.raises(EpochLogUnreadable, match="has lost entry 0"):
        reader.read_to_end()


def test_a_log_without_a_leader_is_waited_for(scene: Scene) -> None:
    scene.enter(*BEGUN)
    scene.cluster.leader_away(EPOCHS, 0, 10)
    assert scene.reader().read_to_end() == epochs_of(BEGUN)


def test_a_log_that_does_not_answer_is_not_taken_for_read(scene: Scene) -> None:
    scene.enter(*BEGUN)
    scene.cluster.leader_away(EPOCHS, 0, 60)
    before = scene.clock.monotonic()
    with pytest.raises(BrokerUnavailable, match="was not read to its end in 30 s"):
        scene.reader().read_to_end()
    assert scene.clock.monotonic() - before == pytest.approx(30, abs=1)


def test_a_log_that_does_not_exist_is_named_at_once(scene: Scene) -> None:
    """Not at the first silence: a broker learns of a new topic a moment after its controller."""
    scene.cluster.delete_topic(EPOCHS)
    before = scene.clock.monotonic()
    with pytest.raises(EpochLogMissing, match=f"{EPOCHS} does not exist"):
        scene.reader().read_to_end()
    assert 2 <= scene.clock.monotonic() - before < 3


def test_a_log_that_is_created_a_moment_later_is_read(scene: Scene) -> None:
    scene.cluster.delete_topic(EPOCHS)

    def create() -> None:
        scene.clock.at_each_wait = lambda: None
        scene.cluster.create_topic(EPOCHS, 1)

    scene.clock.at_each_wait = create
    assert scene.reader().read_to_end() == Epochs()


def test_a_stop_ends_the_wait(scene: Scene) -> None:
    scene.cluster.leader_away(EPOCHS, 0, 60)
    stop = Event()
    scene.clock.at_each_wait = stop.set
    with pytest.raises(Stopped, match=EPOCHS):
        scene.reader().read_to_end(stop)


def polled(scene: Scene, reader: EpochReader, seconds: float, every: float = 0.5) -> None:
    for _ in range(int(seconds / every)):
        scene.clock.sleep(every)
        reader.poll()


def test_a_poll_of_a_client_that_stops_fetching_connects_again(scene: Scene) -> None:
    """A router would wait for ever for the epoch that a growth waits for."""
    scene.enter(*BEGUN)
    reader = scene.reader()
    reader.read_to_end()
    scene.cluster.stop_fetching("reader", EPOCHS, 0)
    polled(scene, reader, 60)
    scene.enter(PREPARE)
    with pytest.raises(BrokerUnavailable, match=f"{EPOCHS}/0 is fetched from offset 2 on.* at 3"):
        polled(scene, reader, 45)
    assert scene.reader().read_to_end() == epochs_of([*BEGUN, PREPARE])


def test_the_time_in_which_nothing_is_polled_is_no_silence(scene: Scene) -> None:
    reader = scene.reader()
    reader.poll()
    scene.cluster.stop_fetching("reader", EPOCHS, 0)
    scene.enter(*BEGUN)
    polled(scene, reader, 15 * 400, every=400)


def test_what_others_have_not_committed_is_waited_for(scene: Scene) -> None:
    scene.enter(*BEGUN)
    reader = scene.reader()
    writing = scene.cluster.begin_foreign("default.orders.epochs", 900)
    entry = encode_entry(2, PREPARE)
    writing.write(EPOCHS, 0, [record(entry.key, entry.value)])
    polled(scene, reader, 60)
    writing.commit()
    polled(scene, reader, 60)
    assert reader.epochs == epochs_of([*BEGUN, PREPARE])


def test_a_log_without_a_leader_is_no_silence(scene: Scene) -> None:
    reader = scene.reader()
    reader.read_to_end()
    scene.cluster.leader_away(EPOCHS, 0, 300)
    scene.enter(*BEGUN)
    polled(scene, reader, 60)


# -- errors of the client ------------------------------------------------------------------------------


class Scripted:
    """A consumer that returns what a test says, one after another."""

    def __init__(self, *answers: list[Message] | KafkaException) -> None:
        self.answers = list(answers)
        self.closed = False

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert [(each.topic, each.partition, each.offset) for each in partitions] == [
            (EPOCHS, 0, 0)
        ]

    def consume(self, _most: int, _seconds: float) -> list[Message]:
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


def event(code: int, *, retriable: bool = False) -> Message:
    return Message(topic=EPOCHS, partition=0, offset=0, error=KafkaError(code, retriable=retriable))


END = KafkaError._PARTITION_EOF  # noqa: SLF001 (a public name)


def reader_of(*answers: list[Message] | KafkaException) -> EpochReader:
    return EpochReader(Scripted(*answers), EPOCHS, StillClock())


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, EpochLogMissing, "restore it from a copy"),
        (KafkaError._UNKNOWN_TOPIC, EpochLogMissing, "restore it from a copy"),  # noqa: SLF001
        (KafkaError._AUTO_OFFSET_RESET, EpochLogUnreadable, "restore it from a copy"),  # noqa: SLF001
        (KafkaError.OFFSET_OUT_OF_RANGE, EpochLogUnreadable, "restore it from a copy"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorized, "ACLs"),
        (
            KafkaError.UNKNOWN,
            BrokerUnavailable,
            EPOCHS,
        ),
    ],
)
def test_an_error_in_place_of_records_has_a_name(
    code: int, error: type[Exception], says: str
) -> None:
    for read in (EpochReader.read_to_end, EpochReader.poll):
        with pytest.raises(error, match=says):
            read(reader_of([event(code)], [event(END)]))


def test_an_error_that_passes_by_itself_is_no_end() -> None:
    entry = encode_entry(0, BEGUN[0])
    arrives = Message(topic=EPOCHS, partition=0, offset=0, key=entry.key, value=entry.value)
    failed = event(KafkaError.NOT_LEADER_FOR_PARTITION, retriable=True)
    reader = reader_of([failed], [arrives], [failed, event(END), failed])
    assert reader.read_to_end() == epochs_of(BEGUN[:1])


def test_an_error_of_a_call_has_a_name() -> None:
    error = KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    with pytest.raises(NotAuthorized, match=f"reading {EPOCHS}"):
        reader_of(error).read_to_end()


class Silent(Scripted):
    """A consumer that gets nothing, and what the metadata says of the topic."""

    def __init__(self, found: KafkaError | KafkaException | None, clock: SimpleClock) -> None:
        super().__init__()
        self.found, self.clock = found, clock

    def consume(self, _most: int, seconds: float) -> list[Message]:
        self.clock.advance(seconds)
        return []

    def list_topics(self, topic: str, timeout: float) -> object:
        assert 0 < timeout < 10
        if isinstance(self.found, KafkaException):
            raise self.found
        return SimpleNamespace(topics={topic: SimpleNamespace(error=self.found)})


@pytest.mark.parametrize(
    ("found", "error", "seconds"),
    [
        (KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), EpochLogMissing, 2),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), NotAuthorized, 2),
        (KafkaError(KafkaError.LEADER_NOT_AVAILABLE), BrokerUnavailable, 30),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), BrokerUnavailable, 30),  # noqa: SLF001
        (None, BrokerUnavailable, 30),
    ],
)
def test_a_silence_has_a_name(
    found: KafkaError | KafkaException | None, error: type[Exception], seconds: int
) -> None:
    clock = SimpleClock()
    reader, began = EpochReader(Silent(found, clock), EPOCHS, clock), clock.monotonic()
    with pytest.raises(error, match=EPOCHS):
        reader.read_to_end()
    assert clock.monotonic() - began == pytest.approx(seconds, abs=0.5)


def test_a_reader_closes_its_consumer() -> None:
    consumer = Scripted()
    EpochReader(consumer, EPOCHS, StillClock()).close()
    assert consumer.closed


# -- a tail that brokers have lost -------------------------------------------------------------------


@pytest.mark.parametrize("read", [EpochReader.read_to_end, EpochReader.poll])
@pytest.mark.parametrize("instead", [[], [Prepare(epoch=1, partitions=8)], [PREPARE, PREPARE]])
def test_a_reader_refuses_a_log_that_has_lost_an_entry_that_it_has_read(
    scene: Scene, read: Read, instead: list[Entry]
) -> None:
    """Also with another entry, or more entries, in its place."""
    scene.enter(*BEGUN, Done(epoch=0))
    reader = scene.reader()
    reader.read_to_end()
    scene.cluster.truncate(EPOCHS, 0, 2)
    scene.enter(*instead)
    with pytest.raises(EpochLogUnreadable, match="restore it from a copy"):
        read(reader)
    assert reader.epochs == epochs_of([*BEGUN, Done(epoch=0)]), "it does not forget"


def test_a_reader_continues_once_the_lost_entry_is_restored(scene: Scene) -> None:
    scene.enter(*BEGUN, PREPARE)
    reader = scene.reader()
    reader.read_to_end()
    scene.cluster.truncate(EPOCHS, 0, 2)
    with pytest.raises(EpochLogUnreadable, match="has lost entry 2"):
        reader.read_to_end()
    scene.enter(PREPARE, Done(epoch=1))
    assert reader.read_to_end() == epochs_of([*BEGUN, PREPARE, Done(epoch=1)])
