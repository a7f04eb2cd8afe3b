"""How far partitions are fetched, and which of them have not moved for long."""

import json

import pytest

from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.fetch_progress import FetchProgress
from dedupe_kafka.offsets import Place

A, B = ("a", 0), ("b", 1)
STARVED_SECONDS = 20.0


def statistics(*fetched: tuple[Place, int]) -> str:
    topics: dict[str, dict[str, dict[str, object]]] = {}
    for (topic, number), offset in fetched:
        found = topics.setdefault(topic, {"partitions": {}})
        found["partitions"][str(number)] = {"next_offset": offset}
    return json.dumps({"topics": topics})


def starved(progress: FetchProgress, positions: dict[Place, int]) -> list[Place]:
    progress.follow(positions)
    return progress.starved


def test_each_partition_has_its_own_offset() -> None:
    progress = FetchProgress()
    assert progress.next_offset(A) == -1
    progress(statistics((A, 5), (B, 7)))
    progress(statistics((B, 8)))
    assert (progress.next_offset(A), progress.next_offset(B)) == (5, 8)


def test_only_the_time_of_reading_counts_and_only_since_a_partition_moved() -> None:
    progress = FetchProgress()
    assert starved(progress, {A: 1, B: 1}) == []
    progress.waited(STARVED_SECONDS / 2)
    assert starved(progress, {A: 1, B: 2}) == []
    progress.waited(STARVED_SECONDS / 2)
    assert starved(progress, {A: 1, B: 2}) == [A]
    progress.waited(STARVED_SECONDS / 2)
    assert starved(progress, {A: 2, B: 2}) == [B]


def test_what_is_fetched_and_not_delivered_is_progress() -> None:
    progress = FetchProgress()
    starved(progress, {A: 1})
    progress.waited(STARVED_SECONDS)
    progress(statistics((A, 500)))
    assert starved(progress, {A: 1}) == []


def test_a_partition_that_was_not_read_begins_again() -> None:
    progress = FetchProgress()
    starved(progress, {A: 1, B: 1})
    progress.waited(STARVED_SECONDS)
    assert starved(progress, {B: 1}) == [B]
    assert starved(progress, {A: 1, B: 1}) == [B]


def test_only_what_is_there_is_missed() -> None:
    progress = FetchProgress()
    starved(progress, {A: 1})
    progress.check(A, 1, 9)
    progress.waited(STARVED_SECONDS)
    progress.check(A, 1, 1)
    progress.check(A, 1, 9)
    starved(progress, {A: 1})
    progress.waited(STARVED_SECONDS)
    with pytest.raises(
        BrokerUnavailable, match="nothing of a/0 is fetched from offset 1 on, although it ends at 9"
    ):
        progress.check(A, 1, 9)
