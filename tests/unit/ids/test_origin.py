"""Where a routed record comes from: what is appended to it is taken away again, and nothing else is."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedupe_ids.batch import Header
from dedupe_ids.origin import (
    ORIGIN_HEADER,
    Origin,
    decode_origin,
    encode_origin,
    header_bytes,
    take_origin,
)

LEGAL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
topics = st.text(LEGAL, min_size=1, max_size=249)
origins = st.builds(Origin, topics, st.integers(0, 65535), st.integers(0, (1 << 48) - 1))
names = st.sampled_from([ORIGIN_HEADER, "trace", "", "dedupe-origin "]) | st.text(max_size=9)
not_valid = (
    st.binary(max_size=9)
    | st.binary(min_size=1).filter(lambda value: value[0] != 1)
    | st.binary(min_size=9).map(lambda value: b"\1" + value + b"\xe9")
)
"""Too short, of another version, with a topic that is not ASCII."""


def encoded(origin: Origin) -> bytes:
    return encode_origin(origin.topic, origin.partition, origin.offset)


producers = st.lists(st.tuples(names, st.binary() | origins.map(encoded)))
"""Headers of a producer, also such as a router makes: those of a topic that was routed before."""


def test_the_layout_is_fixed() -> None:
    value = encode_origin("orders", 0x0102, 0x030405060708)
    assert value == b"\x01\x01\x02\x03\x04\x05\x06\x07\x08orders"


def test_an_origin_reads_as_a_place() -> None:
    assert str(Origin("orders", 3, 1234)) == "orders:3:1234"


@given(origins)
def test_an_origin_is_decoded_as_it_was_encoded(origin: Origin) -> None:
    assert decode_origin(encoded(origin)) == origin


@given(origins.filter(lambda each: encoded(each).isascii()))
def test_a_value_that_a_client_returns_as_text_is_decoded(origin: Origin) -> None:
    assert decode_origin(encoded(origin).decode()) == origin


@pytest.mark.parametrize(
    ("partition", "offset"), [(-1, 0), (65536, 0), (0, -1), (0, 1 << 48)], ids=str
)
def test_a_place_that_does_not_fit_is_refused(partition: int, offset: int) -> None:
    with pytest.raises(struct.error):
        encode_origin("orders", partition, offset)


def test_a_topic_that_kafka_would_not_have_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode_origin("bestellungen-ä", 0, 0)


@given(not_valid | st.none())
@example(b"")
@example(b"\1" + bytes(8))
@example(b"\2" + bytes(8) + b"orders")
def test_garbage_is_no_origin(value: bytes | None) -> None:
    assert decode_origin(value) is None


@given(producers, origins)
def test_what_the_producer_sent_survives(sent: list[Header], origin: Origin) -> None:
    headers = [*sent, (ORIGIN_HEADER, encoded(origin))]
    before = list(headers)
    assert take_origin(headers) == (origin, sent or None)
    assert take_origin(tuple(headers)) == (origin, sent or None)
    assert headers == before


@given(producers, not_valid)
def test_a_last_header_that_is_no_origin_is_kept(sent: list[Header], value: bytes) -> None:
    headers = [*sent, (ORIGIN_HEADER, value)]
    assert take_origin(headers) == (None, headers)


@given(producers, origins, st.text().filter(lambda name: name != ORIGIN_HEADER))
def test_an_origin_that_is_not_the_last_is_kept(
    sent: list[Header], origin: Origin, name: str
) -> None:
    headers = [*sent, (ORIGIN_HEADER, encoded(origin)), (name, encoded(origin))]
    assert take_origin(headers) == (None, headers)


def test_a_null_header_is_kept() -> None:
    headers: list[Any] = [(ORIGIN_HEADER, None)]  # Kafka's may be null
    assert take_origin(headers) == (None, headers)


@pytest.mark.parametrize("headers", [None, [], ()])
def test_a_record_without_headers_has_none(headers: Sequence[Header] | None) -> None:
    assert take_origin(headers) == (None, None)


def varint(number: int) -> bytes:
    """A signed number of Kafka's record format."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def in_kafka(value: bytes, headers: Sequence[Header]) -> int:
    """The size of a record with no key, at the first place of its batch."""
    body = bytes(3) + varint(-1) + varint(len(value)) + value + varint(len(headers))
    for name, content in headers:
        body += varint(len(name.encode())) + name.encode() + varint(len(content)) + content
    return len(varint(len(body)) + body)


def added(value: bytes, before: int, origin: Origin) -> int:
    headers = [("", b"")] * before
    routed = [*headers, (ORIGIN_HEADER, encoded(origin))]
    return in_kafka(value, routed) - in_kafka(value, headers)


@given(st.integers(0, 9_000), st.integers(0, 70), origins)
def test_the_header_adds_no_more_than_is_said(size: int, before: int, origin: Origin) -> None:
    most = header_bytes(origin.topic)
    assert most - 3 <= added(bytes(size), before, origin) <= most


def test_the_header_may_add_as_much_as_is_said() -> None:
    origin = Origin("x" * 249, 0, 0)
    assert added(bytes(8_000), 63, origin) == header_bytes(origin.topic)
