from itertools import accumulate

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dedupe_ids.origin import (
    HEADER,
    Origin,
    decode_origin,
    encode_origin,
    encode_origins,
    strip_origins,
    take_origin,
)

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True)
PARTITIONS = st.integers(0, 2**16 - 1)
OFFSETS = st.integers(0, 2**48 - 1)
HEADERS = st.lists(st.tuples(st.sampled_from(["id", HEADER]), st.binary(max_size=9)), max_size=4)


@given(TOPICS, PARTITIONS, OFFSETS)
def test_what_is_encoded_is_read_again(topic: str, partition: int, offset: int) -> None:
    origin = decode_origin(encode_origin(topic, partition, offset))
    assert origin == Origin(topic, partition, offset)
    assert str(origin) == f"{topic}:{partition}:{offset}"


@given(HEADERS, TOPICS, PARTITIONS, OFFSETS)
def test_the_headers_of_a_producer_survive(
    headers: list[tuple[str, bytes]], topic: str, partition: int, offset: int
) -> None:
    own = (HEADER, encode_origin(topic, partition, offset))
    origin, left = take_origin([*headers, own])
    assert origin == Origin(topic, partition, offset)
    assert left == (headers or None)


def test_the_origin_of_a_router_before_this_one_is_a_producers_header() -> None:
    first, second = (HEADER, encode_origin("a", 1, 2)), (HEADER, encode_origin("b", 3, 4))
    assert take_origin([first, second]) == (Origin("b", 3, 4), [first])


@pytest.mark.parametrize(
    "value",
    [None, b"", b"\x01", encode_origin("", 1, 2), b"\x02" + encode_origin("a", 1, 2)[1:],
     encode_origin("a", 1, 2) + b"\xff"],
)  # fmt: skip
def test_another_value_is_no_origin(value: bytes | None) -> None:
    assert decode_origin(value) is None
    headers = [("id", b"1"), (HEADER, value or b"")]
    assert take_origin(headers) == (None, headers)


def test_a_record_without_headers_has_none() -> None:
    assert take_origin(None) == (None, None)
    assert take_origin([]) == (None, None)


@given(
    st.lists(st.tuples(st.just("a") | TOPICS, st.just(3) | PARTITIONS), max_size=20),
    st.data(),
)
def test_a_batch_is_encoded_as_each_of_its_records(
    places: list[tuple[str, int]], data: st.DataObject
) -> None:
    # In a partition they ascend, mostly without gaps.
    gaps = data.draw(st.lists(st.just(1) | st.integers(1, 2**43), min_size=20, max_size=20))
    records = [
        Message(topic=topic, partition=partition, offset=offset)
        for (topic, partition), offset in zip(places, accumulate(gaps), strict=False)
    ]
    assert encode_origins(records) == [
        encode_origin(each.topic() or "", each.partition() or 0, each.offset() or 0)
        for each in records
    ]


@given(
    st.lists(
        st.tuples(
            st.none() | st.tuples(st.just("a") | TOPICS, st.just(3) | PARTITIONS, OFFSETS), HEADERS
        ),
        max_size=9,
    )
)
def test_the_origins_of_a_batch_are_those_of_each_of_its_records(
    given: list[tuple[tuple[str, int, int] | None, list[tuple[str, bytes]]]],
) -> None:
    sent = [
        [*headers, *([(HEADER, encode_origin(*place))] if place else [])]
        for place, headers in given
    ]
    records = [Message(topic="t", headers=list(headers) or None) for headers in sent]

    found = strip_origins(records)

    assert len(set(found.places)) == len(found.places)
    for row, (record, headers) in enumerate(zip(records, sent, strict=True)):
        origin, left = take_origin(headers)
        at = int(found.which[row])
        place = Origin(*found.places[at], int(found.offsets[row])) if at >= 0 else None
        assert (place, record.headers()) == (origin, left)
