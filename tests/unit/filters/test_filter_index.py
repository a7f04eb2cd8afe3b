"""What an index makes of filter records; the broker is a list."""

import logging
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dedupe_filters.bloom import build, may_contain
from dedupe_filters.filter_index import FilterIndex, newest_sources
from dedupe_filters.range_consumer import RangeConsumer
from dedupe_filters.range_plan import NO_TRANSACTION, UNKNOWN_PRODUCER
from dedupe_filters.values import FilterSource, Wanted
from dedupe_filters.wire_format import ChunkFilter, Origin, encode
from dedupe_kafka.offsets import OffsetRange, TopicOffsets

SOURCE = FilterSource.header("v")
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class FiltersTopic:
    """A filters topic of one partition, and the fetcher that reads it."""

    def __init__(self) -> None:
        self.records: list[bytes | None] = []
        self.keys: dict[int, bytes] = {}
        self.read_offsets: list[int] = []

    @property
    def state(self) -> TopicOffsets:
        return TopicOffsets(
            topic="clean-filters", id="filters", lows={0: 0}, ends={0: len(self.records)}
        )

    def read(self, ranges: Mapping[int, Sequence[OffsetRange]]) -> Iterator[list[Message]]:
        for each in ranges.get(0, ()):
            offsets = range(each.low, each.end)
            self.read_offsets += offsets
            for at in range(each.low, each.end, 3):
                yield [
                    Message(
                        topic="f",
                        partition=0,
                        offset=offset,
                        key=self.keys.get(offset),
                        value=self.records[offset],
                    )
                    for offset in offsets[at - each.low : at - each.low + 3]
                ]

    def index(self, wanted: Wanted) -> FilterIndex:
        return FilterIndex(cast("RangeConsumer", self), TOPIC_ID, SOURCE, wanted)


def chunk(first: int, values: Sequence[bytes] = (), **fields: object) -> ChunkFilter:
    given = {
        "topic_id": TOPIC_ID,
        "source": SOURCE,
        "origin": Origin.TRANSACTION,
        "first_offset": first,
        "last_offset": first + 9,
        "records": 10,
        "unfiltered": False,
        "bloom": build(values, 16),
        **fields,
    }
    return ChunkFilter(**given)  # type: ignore[arg-type] # of several fields


VALUES = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), max_size=3)
CHUNKS = st.lists(
    st.builds(
        lambda first, values, size, unfiltered: chunk(
            first, bloom=build(values, size), unfiltered=unfiltered
        ),
        st.integers(0, 1000),
        VALUES,
        st.sampled_from([16, 17, 255]),
        st.booleans(),
    ),
    max_size=20,
)


@given(CHUNKS, VALUES, st.booleans(), st.integers(0, 20))
def test_a_claim_says_what_its_filter_says(
    chunks: list[ChunkFilter], values: list[bytes], unfiltered: bool, learnt_first: int
) -> None:
    """Filters of several sizes, learnt at once or in two goes."""
    topic = FiltersTopic()
    index = topic.index(Wanted.of(values, unfiltered=unfiltered))

    for part in (chunks[:learnt_first], chunks[learnt_first:]):
        topic.records += [encode(each) for each in part]
        index.refresh(topic.state)

    claims = index.claims(0)
    assert claims.starts.tolist() == [c.first_offset for c in chunks]
    assert claims.ends.tolist() == [c.last_offset + 1 for c in chunks]
    assert claims.matches.tolist() == [
        (c.unfiltered and unfiltered) or any(may_contain(c.bloom, value) for value in values)
        for c in chunks
    ]
    assert topic.read_offsets == list(range(len(chunks)))


def test_only_filters_that_can_be_relied_on_count() -> None:
    topic = FiltersTopic()
    topic.records = [
        None,
        b"something else",
        encode(chunk(0, topic_id="another")),
        encode(chunk(0, source=FilterSource.header("w"))),
        encode(chunk(0, records=9)),
        encode(chunk(50)),
        encode(chunk(70, records=9, origin=Origin.READ)),
    ]
    index = topic.index(Wanted.of([b"a"]))

    index.refresh(topic.state)

    assert index.claims(0).starts.tolist() == [50, 70]
    assert index.claims(0).producers.tolist() == [UNKNOWN_PRODUCER, NO_TRANSACTION]
    assert len(index.claims(1)) == 0


def test_a_filters_topic_that_was_made_anew_is_read_from_its_start() -> None:
    topic = FiltersTopic()
    topic.records = [encode(chunk(0)), encode(chunk(20))]
    index = topic.index(Wanted.of([b"a"]))
    index.refresh(topic.state)
    topic.records = [encode(chunk(40))]

    index.refresh(TopicOffsets(topic="clean-filters", id="anew", lows={0: 0}, ends={0: 1}))

    assert index.claims(0).starts.tolist() == [0, 20, 40]


def test_what_is_behind_is_forgotten_but_for_what_tells_of_the_next_marker() -> None:
    topic = FiltersTopic()
    topic.records = [encode(chunk(first)) for first in (0, 11, 22)]
    index = topic.index(Wanted.of([b"a"]))
    index.refresh(topic.state)

    index.forget({0: 21})

    assert index.claims(0).starts.tolist() == [11, 22]


def test_the_newest_filter_tells_where_values_are() -> None:
    topic = FiltersTopic()
    other = FilterSource.json_path("$.a")
    topic.records = [
        encode(chunk(0)),
        encode(chunk(20, source=other)),
        encode(chunk(40, topic_id="another")),
        b"something else",
    ]

    assert newest_sources(cast("RangeConsumer", topic), TOPIC_ID, topic.state) == {other}
    assert newest_sources(cast("RangeConsumer", topic), "none", topic.state) == set()


def test_transactions_are_of_one_producer_if_their_filters_have_one_key() -> None:
    topic = FiltersTopic()
    topic.records = [encode(chunk(first)) for first in (0, 11, 22)]
    topic.records.append(encode(chunk(33, origin=Origin.READ)))
    topic.keys = {0: b"shop/orders/0", 1: b"shop/orders/0", 2: b"another", 3: b"another"}
    index = topic.index(Wanted.of([b"a"]))

    index.refresh(topic.state)

    first, second, third, read = index.claims(0).producers.tolist()
    assert first == second
    assert len({first, third, read, UNKNOWN_PRODUCER}) == 4
    assert read == NO_TRANSACTION


@pytest.mark.parametrize("last_offset", [(1 << 63) - 1, (1 << 63) - 2, 1 << 62])
def test_a_filter_with_an_offset_that_no_record_has_is_ignored_by_name(
    last_offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    topic = FiltersTopic()
    topic.records = [
        encode(chunk(0)),
        encode(chunk(11, last_offset=last_offset, origin=Origin.READ)),
        encode(chunk(22)),
    ]
    index = topic.index(Wanted.of([b"a"]))

    with caplog.at_level(logging.WARNING):
        index.refresh(topic.state)

    assert index.claims(0).starts.tolist() == [0, 22]
    assert "f/0: the record at offset 1 is no filter that this release can read" in caplog.text


class ManyPartitions:
    """A filters topic with as many filters in each partition, read one batch at a time."""

    def __init__(self, partitions: int, filters: int) -> None:
        self._filters = filters
        self.value = encode(chunk(0, [b"a"]))
        self.state = TopicOffsets(
            topic="clean-filters",
            id="filters",
            lows=dict.fromkeys(range(partitions), 0),
            ends=dict.fromkeys(range(partitions), filters),
        )

    def read(self, ranges: Mapping[int, Sequence[OffsetRange]]) -> Iterator[list[Message]]:
        for start in range(0, self._filters, 100):
            for partition in ranges:
                yield [
                    Message(topic="f", partition=partition, offset=offset, value=self.value)
                    for offset in range(start, start + 100)
                ]


def test_memory_is_bounded_over_all_partitions_together() -> None:
    """Each partition alone has too few filters to reach a bound of its own."""
    topic = ManyPartitions(partitions=100, filters=500)
    index = FilterIndex(cast("RangeConsumer", topic), TOPIC_ID, SOURCE, Wanted.of([b"b"]))

    tracemalloc.start()
    try:
        index.refresh(topic.state)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    filters = 100 * 500
    assert sum(len(index.claims(partition)) for partition in range(100)) == filters
    assert kept / filters < 50
    assert peak < 8 << 20
