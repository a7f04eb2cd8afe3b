"""Appending to the epoch log: of two writers at once one is refused, whatever is killed or not answered."""

import pytest
from confluent_kafka import KafkaError

from dedupe_growth.entries import Done, Entry, Switch
from dedupe_growth.epochs import Epochs, epochs_of
from dedupe_growth.writer import EpochLogMoved
from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized
from tests.simulation.kafka.calls import Call, Killed, Moment
from tests.simulation.kafka.cluster import record
from tests.simulation.kafka.failures import failure
from tests.simulation.kafka.transactional import timed_out
from tests.unit.growth.scene import EPOCHS, TRANSACTIONAL_ID, Scene, once

FIRST, OTHER = Switch(epoch=0, partitions=2, inputs={}), Switch(epoch=0, partitions=3, inputs={})
SECOND = Done(epoch=0)
CALLS = (
    "init_transactions",
    "assign",
    "consume",
    "begin_transaction",
    "produce",
    "commit_transaction",
)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_entries_are_appended_one_after_another(scene: Scene) -> None:
    known = scene.writer().append(Epochs(), FIRST)
    assert known == epochs_of([FIRST])
    assert scene.writer().append(known, SECOND) == epochs_of([FIRST, SECOND])
    assert scene.entries == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("there", "known"), [([FIRST], []), ([FIRST, SECOND], [FIRST]), ([FIRST], [FIRST, SECOND])]
)
def test_nothing_is_appended_to_a_log_of_other_entries_than_are_known(
    scene: Scene, there: list[Entry], known: list[Entry]
) -> None:
    scene.enter(*there)
    with pytest.raises(EpochLogMoved, match=f"has {len(there)} entries, and {len(known)} were"):
        scene.writer().append(epochs_of(known), OTHER)
    assert scene.entries == there


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("call", CALLS)
def test_of_two_writers_at_once_one_is_refused(scene: Scene, call: str, moment: Moment) -> None:
    """The other one appends between any two calls of this one."""
    refused: list[str] = []

    def other(_: Call) -> None:
        try:
            scene.writer("other").append(Epochs(), OTHER)
        except EpochLogMoved:
            refused.append("other")

    try:
        scene.writer("this", once(call, moment, other)).append(Epochs(), FIRST)
    except EpochLogMoved:
        refused.append("this")
    committed = (call, moment) == ("commit_transaction", Moment.AFTER)
    assert refused == ["other" if committed else "this"]
    assert scene.entries == [FIRST if committed else OTHER]


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("call", CALLS)
def test_a_writer_that_is_killed_has_appended_all_or_nothing(
    scene: Scene, call: str, moment: Moment
) -> None:
    def kill(_: Call) -> None:
        raise Killed

    with pytest.raises(Killed):
        scene.writer("killed", once(call, moment, kill)).append(Epochs(), FIRST)
    scene.cluster.disconnect("killed")
    next_one = scene.writer("next")
    if (call, moment) == ("commit_transaction", Moment.AFTER):
        with pytest.raises(EpochLogMoved):
            next_one.append(Epochs(), FIRST)
    else:
        next_one.append(Epochs(), FIRST)
    assert scene.entries == [FIRST]
    assert not scene.cluster.coordinator.open_ids()


@pytest.mark.parametrize("moment", Moment)
def test_a_commit_without_an_answer_is_repeated(scene: Scene, moment: Moment) -> None:
    def fail(_: Call) -> None:
        raise timed_out()

    found = scene.writer("this", once("commit_transaction", moment, fail)).append(Epochs(), FIRST)
    assert found == epochs_of([FIRST])
    assert scene.entries == [FIRST]


@pytest.mark.parametrize("moment", Moment)
def test_a_commit_that_is_never_answered_may_have_been_one(scene: Scene, moment: Moment) -> None:
    def fail(call: Call) -> None:
        if (call.name, call.moment) == ("commit_transaction", moment):
            scene.clock.advance(1.0)
            raise timed_out()

    with pytest.raises(BrokerUnavailable, match="no answer to a commit"):
        scene.writer("this", fail).append(Epochs(), FIRST)
    scene.cluster.disconnect("this")
    there: list[Entry] = [FIRST] if moment is Moment.AFTER else []
    assert scene.reader().read_to_end() == epochs_of(there)
    scene.writer("next").append(epochs_of(there), SECOND)
    assert scene.entries == [*there, SECOND]


def test_the_next_writer_does_not_wait_long_for_a_transaction_that_was_left(scene: Scene) -> None:
    """Kafka aborts it when another writer begins."""
    scene.enter(FIRST)

    scene.cluster.begin_foreign(TRANSACTIONAL_ID, 10.0).write(EPOCHS, 0, [record(b"1", b"x")])
    before = scene.clock.monotonic()
    assert scene.writer().append(epochs_of([FIRST]), SECOND) == epochs_of([FIRST, SECOND])
    assert scene.clock.monotonic() - before < 5


def test_an_entry_is_known_although_it_is_not_shown_at_once(scene: Scene) -> None:
    """A commit is answered before its marker is in the log."""
    scene.cluster.coordinator.marker_seconds = 1.0
    assert scene.writer().append(Epochs(), FIRST) == epochs_of([FIRST])


def test_a_log_that_is_not_read_to_its_end_gets_no_entry(scene: Scene) -> None:
    scene.cluster.leader_away(EPOCHS, 0, 60)
    with pytest.raises(BrokerUnavailable, match="was not read to its end"):
        scene.writer().append(Epochs(), FIRST)
    scene.clock.advance(60)
    assert scene.entries == []


def test_an_error_of_kafka_has_a_name(scene: Scene) -> None:
    def refuse(_: Call) -> None:
        raise failure(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    hook = once("init_transactions", Moment.BEFORE, refuse)
    with pytest.raises(NotAuthorized, match=f"writing to {EPOCHS}"):
        scene.writer("this", hook).append(Epochs(), FIRST)


def test_a_controller_that_lost_the_race_may_look_again() -> None:
    assert EpochLogMoved.retriable
