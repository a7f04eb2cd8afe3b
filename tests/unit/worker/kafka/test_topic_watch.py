"""A topic made anew is noticed, and is described only when there is a reason."""

from typing import cast

import pytest

from dedupe_kafka.topic_id import NO_TOPIC_ID
from dedupe_worker.errors import InputTopicReplaced, OutputTopicReplaced
from dedupe_worker.kafka.admin import Topic, Topics
from dedupe_worker.kafka.topic_watch import TopicWatch
from tests.unit.worker.still_clock import StillClock

INPUT, OUTPUT = Topic("raw", "id of raw", 4), Topic("clean", "id of clean", 4)


class Cluster:
    """The topics as they are now, in place of Kafka; keeps which were described."""

    def __init__(self) -> None:
        self.ends = {"raw": 100, "clean": 50}
        self.topics = {"raw": INPUT, "clean": OUTPUT}
        self.high = {"raw": 100, "clean": 50}
        self.described: list[str] = []

    def end(self, name: str, _partition: int) -> int:
        return self.ends[name]

    def high_watermark(self, name: str, _partition: int) -> int:
        return self.high[name]

    def describe(self, name: str, _partition: int) -> Topic:
        self.described.append(name)
        return self.topics[name]

    def make_anew(self, name: str, end: int) -> None:
        self.topics[name] = Topic(name, "another id", 4)
        self.ends[name] = end


class Watched:
    """A watch at an input offset and an output position."""

    def __init__(self, partition: int = 0, partitions: int = 1000, topic_id: str = "") -> None:
        self.clock, self.cluster = StillClock(), Cluster()
        topics = cast(Topics, self.cluster)
        for name, there in self.cluster.topics.items():
            self.cluster.topics[name] = Topic(name, topic_id or there.id, partitions)
        watched = self.cluster.topics["raw"], self.cluster.topics["clean"]
        self.watch = TopicWatch(topics, *watched, partition, self.clock)
        self.check()
        self.cluster.described.clear()

    def check(self, input_offset: int = 100, output_position: int = 50) -> int:
        return self.watch.check(input_offset=input_offset, output_position=output_position)


def test_the_end_of_the_input_is_asked_each_time_and_nothing_described() -> None:
    watched = Watched()
    for _ in range(5):
        watched.clock.sleep(10)
        assert watched.check() == 100
    assert watched.cluster.described == []


@pytest.mark.parametrize(
    ("partitions", "seconds"), [(1, 10), (150, 10), (500, 30), (1000, 60), (5000, 300)]
)
def test_a_stream_describes_its_topics_so_often_whatever_its_partitions(
    partitions: int, seconds: int
) -> None:
    """Between two checks passes a bit more or less than ten seconds."""
    watched = Watched(partitions=partitions)
    for number in range(60):
        watched.clock.sleep(10.01 if number % 2 else 9.98)
        watched.check()
    assert watched.cluster.described == ["clean", "raw"] * (600 // seconds)


def test_a_check_tells_whether_it_has_described_the_input() -> None:
    watched = Watched(partitions=500)
    told = []
    for _ in range(6):
        watched.clock.sleep(10)
        watched.check()
        told.append(watched.watch.is_described)
    assert told == [False, False, True] * 2


def test_the_end_of_the_input_is_known_once_its_topic_was_described_after_it() -> None:
    watched = Watched(partitions=10)
    watched.clock.sleep(10)
    watched.check()
    assert watched.watch.input_end == 100
    watched.cluster.make_anew("raw", 400)
    watched.clock.sleep(10)
    with pytest.raises(InputTopicReplaced):
        watched.check()
    assert watched.watch.input_end == 100


@pytest.mark.parametrize("name", ["raw", "clean"])
def test_without_ids_a_topic_that_is_shorter_is_another_one(name: str) -> None:
    watched = Watched(topic_id=NO_TOPIC_ID)
    watched.cluster.ends[name] = 40
    assert watched.check() == watched.cluster.ends["raw"], "an open transaction holds it back"
    watched.cluster.high[name] = 40
    with pytest.raises((InputTopicReplaced, OutputTopicReplaced), match=f"{name} was deleted"):
        watched.check()


def test_without_ids_a_position_that_went_back_is_in_another_topic() -> None:
    watched = Watched(topic_id=NO_TOPIC_ID)
    watched.cluster.ends["clean"] = watched.cluster.high["clean"] = 1_000
    with pytest.raises(OutputTopicReplaced):
        watched.check(output_position=20)


def test_the_input_is_described_when_it_is_asked_for() -> None:
    watched = Watched()
    watched.watch.check_input()
    assert watched.cluster.described == ["raw"]
    watched.cluster.make_anew("raw", 1_000)
    with pytest.raises(InputTopicReplaced):
        watched.watch.check_input()


@pytest.mark.parametrize("end", [0, 49])
def test_an_output_that_is_shorter_than_before_is_described_at_once(end: int) -> None:
    watched = Watched()
    watched.cluster.make_anew("clean", end)
    with pytest.raises(OutputTopicReplaced, match="clean was deleted"):
        watched.check()


def test_an_input_that_is_shorter_than_before_is_described_at_once() -> None:
    watched = Watched()
    watched.cluster.make_anew("raw", 99)
    with pytest.raises(InputTopicReplaced, match="raw was deleted"):
        watched.check()


def test_a_position_that_went_back_is_one_in_another_topic() -> None:
    watched = Watched()
    watched.cluster.make_anew("clean", 1_000)
    with pytest.raises(OutputTopicReplaced):
        watched.check(output_position=20)


@pytest.mark.parametrize(
    ("name", "error"), [("raw", InputTopicReplaced), ("clean", OutputTopicReplaced)]
)
def test_a_topic_that_has_grown_past_the_worker_is_noticed_within_a_minute(
    name: str, error: type[Exception]
) -> None:
    watched = Watched()
    watched.cluster.make_anew(name, 1_000)
    watched.check()
    watched.clock.sleep(60)
    with pytest.raises(error):
        watched.check()


def test_another_producers_open_transaction_is_no_new_topic() -> None:
    watched = Watched()
    watched.cluster.ends["clean"] = 40  # the last stable offset
    assert watched.check() == 100


def test_workers_of_a_stream_do_not_describe_at_the_same_time() -> None:
    firsts = []
    for partition in range(1, 6):
        watched = Watched(partition)
        while not watched.cluster.described:
            watched.clock.sleep(1)
            watched.check()
        firsts.append(round(watched.clock.seconds))
    assert len(set(firsts)) == 5
    assert max(firsts) - min(firsts) > 30
