"""How often Kafka is asked, and what becomes of its answers."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from dedupe_kafka.errors import BrokerUnavailable, StreamError, TopicMissing
from dedupe_kafka.topic import TopicProblem
from dedupe_operator.errors import LostLeadership
from dedupe_operator.growth_watch import GrowthWatch
from dedupe_operator.kafka_asks import AnswerPending, KafkaAsks
from dedupe_operator.topic_watch import PartitionStates, TopicsView, TopicWatch
from tests.unit.operator.fake_kafka import FakeKafka
from tests.unit.operator.inline import FakeClock, Inline, inline_asks
from tests.unit.operator.objects import NOW, stream

ORDERS = stream()
SECRET = {"client.properties": b"sasl.username=me\nsasl.password=hunter2"}


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    fake = FakeKafka()
    monkeypatch.setattr("dedupe_operator.kafka_asks.Cluster", fake)
    return fake


@pytest.fixture(name="clock")
def _clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def watch(clock: FakeClock, kafka: FakeKafka) -> TopicWatch:
    assert not kafka.asked
    return TopicWatch(inline_asks(clock))


def waits(watch: TopicWatch, kafka: FakeKafka, clock: FakeClock, *, questions: int) -> list[int]:
    """After how many whole seconds each next question came."""
    found: list[int] = []
    since, before = clock.now, len(kafka.asked)
    while len(found) < questions:
        clock.now += 1
        watch.get(ORDERS, {})
        if len(kafka.asked) > before:
            found.append(int(clock.now - since))
            since, before = clock.now, len(kafka.asked)
    return found


def test_the_answer_is_what_kafka_says(watch: TopicWatch, kafka: FakeKafka) -> None:
    kafka.partitions = 5
    view = watch.get(ORDERS, SECRET)
    assert (view.partitions, view.usable, view.created) == (5, True, True)
    assert kafka.asked == [("kafka:9092", {"sasl.username": "me", "sasl.password": "hunter2"})]


def test_a_topic_with_more_partitions_than_a_stream_may_have_is_refused(
    watch: TopicWatch, kafka: FakeKafka
) -> None:
    kafka.partitions = 10_001
    view = watch.get(ORDERS, SECRET)
    assert (view.partitions, view.usable) == (None, False)
    assert [each.reason for each in view.problems] == ["TooManyPartitions"]


def test_a_stream_with_routers_has_the_partitions_of_its_spec_and_none_waits(
    watch: TopicWatch, kafka: FakeKafka
) -> None:
    kafka.partitions = 7
    view = watch.get(stream({"spec.repartition": {"partitions": 4}}), SECRET, known=2)
    assert (view.partitions, view.usable, view.added) == (4, True, {})


def test_topics_that_are_well_are_looked_at_once_a_minute(
    watch: TopicWatch, kafka: FakeKafka, clock: FakeClock
) -> None:
    watch.get(ORDERS, {})
    assert waits(watch, kafka, clock, questions=3) == [60, 60, 60]


def test_a_cluster_that_does_not_answer_is_asked_ever_more_rarely(
    watch: TopicWatch, kafka: FakeKafka, clock: FakeClock
) -> None:
    kafka.fails = BrokerUnavailable("no answer")
    view = watch.get(ORDERS, {})
    assert (view.partitions, view.usable) == (None, False)
    assert [one.reason for one in view.problems] == ["BrokerUnavailable"]
    assert waits(watch, kafka, clock, questions=5) == [6, 12, 15, 30, 60]


def test_a_cluster_that_answers_again_is_asked_soon_the_next_time_it_fails(
    watch: TopicWatch, kafka: FakeKafka, clock: FakeClock
) -> None:
    kafka.fails = BrokerUnavailable("no answer")
    watch.get(ORDERS, {})
    waits(watch, kafka, clock, questions=4)
    kafka.fails = None
    waits(watch, kafka, clock, questions=2)
    kafka.fails = TopicMissing("gone")
    waits(watch, kafka, clock, questions=1)
    assert waits(watch, kafka, clock, questions=1) == [6]


def test_a_topic_that_a_person_is_to_mend_is_looked_at_soon(
    watch: TopicWatch, kafka: FakeKafka, clock: FakeClock
) -> None:
    kafka.problems = (TopicProblem(reason="R", message="mend it", fatal=False),)
    view = watch.get(ORDERS, {})
    assert view.usable
    assert waits(watch, kafka, clock, questions=2) == [3, 3]


def test_a_fatal_problem_makes_topics_unusable(watch: TopicWatch, kafka: FakeKafka) -> None:
    kafka.problems = (TopicProblem(reason="R", message="mend it", fatal=True),)
    view = watch.get(ORDERS, {})
    assert not view.usable
    assert view.partitions == 2
    assert [one.reason for one in view.problems] == ["R"]


def test_another_spec_or_another_secret_is_asked_about_at_once(
    watch: TopicWatch, kafka: FakeKafka
) -> None:
    watch.get(ORDERS, SECRET)
    watch.get(stream({"spec.output.topic": "other"}), SECRET)
    watch.get(stream({"spec.output.topic": "other"}), {**SECRET, "ca.crt": b"x"})
    watch.get(stream({"spec.output.topic": "other"}), {**SECRET, "ca.crt": b"y"})
    assert len(kafka.asked) == 4
    watch.get(stream({"spec.output.topic": "other"}), {"ca.crt": b"y", **SECRET})
    assert len(kafka.asked) == 4


def test_a_topic_created_stays_so_until_kafka_is_asked_again(
    watch: TopicWatch, clock: FakeClock
) -> None:
    assert watch.get(ORDERS, {}).created
    assert watch.get(ORDERS, {}).created
    clock.now += 60
    assert not watch.get(ORDERS, {}).created


def test_a_secret_that_cant_be_used_asks_nothing(watch: TopicWatch, kafka: FakeKafka) -> None:
    view = watch.get(ORDERS, {"client.properties": b"ssl.key.location=/etc/passwd"})
    assert [one.reason for one in view.problems] == ["SecretInvalid"]
    assert not view.usable
    assert kafka.asked == []


def test_nothing_that_is_kept_or_told_holds_the_secret(watch: TopicWatch) -> None:
    view = watch.get(ORDERS, SECRET)
    assert "hunter2" not in f"{watch!r} {view!r}"


def test_files_of_the_secret_reach_the_client_as_text(watch: TopicWatch, kafka: FakeKafka) -> None:
    text = b"ssl.ca.location=/etc/dedupestream/kafka/ca.crt"
    watch.get(ORDERS, {"client.properties": text, "ca.crt": b"certificate"})
    assert kafka.connected[1] == {"ssl.ca.pem": "certificate"}


@pytest.mark.parametrize(
    "get",
    [
        lambda asks: TopicWatch(asks).get(ORDERS, {}),
        lambda asks: PartitionStates(asks).get(ORDERS, {}, 0, [0]),
        lambda asks: GrowthWatch(asks).get(
            stream({"spec.repartition": {"partitions": 4}}),
            {},
            TopicsView(partitions=4, usable=True),
            known=0,
            workers={},
            counted={},
        ),
    ],
    ids=["topics", "states", "growth"],
)
def test_a_lost_lease_ends_the_pass(
    get: Callable[[KafkaAsks], object], kafka: FakeKafka, clock: FakeClock
) -> None:
    def check() -> None:
        raise LostLeadership("renewed too long ago")

    lanes = Inline()
    with pytest.raises(LostLeadership):
        get(KafkaAsks(clock, check=check, answering=lanes, silent=lanes))
    assert kafka.asked == []


def test_states_are_known_as_soon_as_an_answer_comes(clock: FakeClock, kafka: FakeKafka) -> None:
    lanes = Inline()
    lanes.held = []
    states = PartitionStates(inline_asks(clock, lanes))
    with pytest.raises(AnswerPending):
        states.get(ORDERS, {}, 0, [0, 1])
    clock.now += 40
    with pytest.raises(StreamError, match="was not asked yet"):
        states.get(ORDERS, {}, 0, [0, 1])
    for call in lanes.held:
        call()
    clock.now += 1
    assert states.get(ORDERS, {}, 0, [0, 1]) == kafka.state


def test_a_state_from_before_the_newest_copy_does_not_judge_it(
    clock: FakeClock, kafka: FakeKafka
) -> None:
    """The copy would be ahead of the output topic as it was then."""
    states = PartitionStates(inline_asks(clock))
    before = states.get(ORDERS, {}, 0, [0, 1], newest_copy=NOW)
    kafka.state = replace(kafka.state, end=2000)
    assert states.get(ORDERS, {}, 0, [0, 1], newest_copy=NOW) == before
    later = NOW + timedelta(seconds=1)
    assert states.get(ORDERS, {}, 0, [0, 1], newest_copy=later) == kafka.state
    assert states.get(ORDERS, {"password": b"x"}, 1, [0, 1], newest_copy=later) == kafka.state
