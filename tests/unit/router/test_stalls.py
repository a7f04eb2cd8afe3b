"""A partition of which nothing is fetched ends the session; one that cannot be read is held."""

import json
from collections.abc import Collection
from typing import Any

import pytest
from confluent_kafka import Message

from dedupe_kafka.errors import BrokerUnavailable, NoLeader
from dedupe_kafka.offsets import Place
from dedupe_router.stalls import StallWatch
from tests.unit.router.group import FakeGroup, FakeStarts, end, reader_of, record

A, B = ("raw", 0), ("raw", 1)
STARVED_SECONDS = 20
IDLE_SECONDS = 0.5


class FakeCluster:
    """The last stable offsets that a test sets; None for a partition that cannot be read."""

    def __init__(self) -> None:
        self.ends: dict[Place, int | None] = {A: 7, B: 0}
        self.asked: list[set[Place]] = []

    def readable_ends(self, places: Collection[Place]) -> dict[Place, int | None]:
        self.asked.append(set(places))
        return {place: self.ends[place] for place in places if place in self.ends}


class Reading:
    """A router that reads A and B from their begin on."""

    def __init__(self) -> None:
        self.group, self.cluster, self.starts = FakeGroup(), FakeCluster(), FakeStarts()
        self.starts.offsets = {A: 0, B: 0}
        self.reader = reader_of(self.group, self.starts)
        cluster: Any = self.cluster
        self.stalls = StallWatch(cluster, self.reader)
        self.group.give(A, B)
        self.read_for(0)

    def read_for(self, seconds: float, *arrives: Message) -> None:
        """Read while nothing comes; then `arrives`."""
        for _ in range(int(seconds / IDLE_SECONDS)):
            self.reader.read(100)
            self.stalls.check()
        self.group.arrives += arrives
        self.reader.read(100)
        self.stalls.check()

    def fetched(self, partition: int, next_offset: int) -> None:
        """Take statistics, as the client calls back."""
        partitions = {str(partition): {"next_offset": next_offset}}
        self.reader.progress(json.dumps({"topics": {"raw": {"partitions": partitions}}}))


@pytest.fixture
def at() -> Reading:
    return Reading()


def test_a_partition_of_which_nothing_is_fetched_ends_the_session_by_name(at: Reading) -> None:
    at.read_for(STARVED_SECONDS - 2)
    assert not at.cluster.asked
    with pytest.raises(
        BrokerUnavailable,
        match=r"raw/0 is fetched from offset 0 on, although it ends at 7; connecting again",
    ):
        at.read_for(4)


def test_records_of_other_partitions_do_not_hide_it(at: Reading) -> None:
    """Each read counts as long as it waits at most for others, which is little."""
    at.cluster.ends[B] = 10_000
    read = iter(range(10_000))

    def read_of_b() -> None:
        for offset in read:
            at.group.arrives += [record(partition=1, offset=offset)]
            at.reader.read(100)
            at.reader.mark_committed(1, [])
            at.stalls.check()

    with pytest.raises(BrokerUnavailable, match="raw/0 is fetched from offset 0 on"):
        read_of_b()
    assert next(read) > STARVED_SECONDS / 0.01 / 2


def test_a_partition_that_is_read_is_not_stalled(at: Reading) -> None:
    for offset in range(7):
        at.read_for(STARVED_SECONDS - 2, record(offset=offset))
        at.reader.mark_committed(1, [])
    at.read_for(3 * STARVED_SECONDS)


def test_an_end_is_asked_for_again_after_as_long(at: Reading) -> None:
    """Also of what an open transaction hides: the last stable offset is the end."""
    at.cluster.ends = {A: 0, B: 0}
    at.read_for(3.5 * STARVED_SECONDS)
    assert at.cluster.asked == [{A, B}] * 3


def test_markers_at_an_end_count_as_read(at: Reading) -> None:
    at.read_for(1, end(*A, 7))
    at.read_for(3 * STARVED_SECONDS)


def test_aborted_records_count_as_fetched(at: Reading) -> None:
    at.cluster.ends[A] = 1_000_000
    for fetched in range(1, 7):
        at.fetched(0, 1_000 * fetched)
        at.read_for(STARVED_SECONDS / 2)
    with pytest.raises(BrokerUnavailable, match="from offset 6000 on"):
        at.read_for(STARVED_SECONDS + 2)


def test_time_without_room_is_no_time_of_reading(at: Reading) -> None:
    at.group.arrives += [record(partition=1, offset=offset) for offset in range(100)]
    at.reader.read(100)
    at.read_for(5 * STARVED_SECONDS)
    assert not at.cluster.asked


@pytest.mark.parametrize("ends", ["paused", "waits"])
def test_what_is_not_read_is_not_stalled(at: Reading, ends: str) -> None:
    at.cluster.ends[B] = 5
    if ends == "paused":
        at.reader.pause(paused=True)
    else:
        at.reader.hold(A)
        at.reader.hold(B)
    at.read_for(3 * STARVED_SECONDS)
    assert not at.cluster.asked
    at.reader.pause(paused=False)
    at.reader.release(A, [])
    at.read_for(STARVED_SECONDS - 2)
    with pytest.raises(BrokerUnavailable, match="raw/0"):
        at.read_for(4)


def test_one_that_cannot_be_read_is_held_and_the_others_are_read(at: Reading) -> None:
    at.cluster.ends = {A: None, B: 3}
    at.starts.held_by = {A: NoLeader("raw/0 has no leader")}
    with pytest.raises(BrokerUnavailable, match="raw/1"):
        at.read_for(STARVED_SECONDS + 2)
    assert A not in at.group.assigned
    at.cluster.ends = {B: 0}
    at.read_for(3 * STARVED_SECONDS)
    assert at.reader.held_by == [at.starts.held_by[A]]


def test_one_that_can_be_read_again_is_taken_from_what_is_committed(at: Reading) -> None:
    at.read_for(0, record(offset=0))
    at.reader.mark_committed(1, [])
    at.cluster.ends[A] = None
    at.starts.offsets[A] = 1
    at.read_for(STARVED_SECONDS + 4)
    assert at.group.assigned == {A: 1, B: 0}
    assert at.reader.held_by, "until something is read"
    at.cluster.ends[A] = 2
    at.read_for(1, record(offset=1))
    assert at.reader.held_by == []


def test_a_topic_that_is_gone_is_left_to_the_watch(at: Reading) -> None:
    at.cluster.ends = {}
    at.read_for(3 * STARVED_SECONDS)
    assert at.reader.held_by == []
