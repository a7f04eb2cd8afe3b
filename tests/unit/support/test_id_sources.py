"""The checker's own definition of ids, by examples."""

import pytest

from tests.support.checker.id_sources import content_id, header_id, json_id, key_id
from tests.support.traffic.hostile import VALUES
from tests.unit.support.histories import record


@pytest.mark.parametrize("none", [None, b""])
def test_a_null_or_empty_key_is_no_id(none: bytes | None) -> None:
    assert key_id(record(0, none)) is None


def test_a_key_is_its_bytes() -> None:
    assert key_id(record(0, b"\xff")) == b"\xff"
    assert key_id(record(0, b"a")) != key_id(record(0, b"A"))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((), None),
        ((("id", b"1"),), b"1"),
        ((("id", b"1"), ("id", b"2")), b"2"),
        ((("id", b"1"), ("other", b"2")), b"1"),
        ((("id", b"1"), ("id", None)), None),
        ((("id", b"1"), ("id", b"")), None),
        ((("ID", b"1"),), None),
    ],
)
def test_the_last_header_of_the_name_decides(
    headers: tuple[tuple[str, bytes | None], ...], expected: bytes | None
) -> None:
    assert header_id("id")(record(0, None, headers=headers)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"a": [{"b": "x"}]}', ("text", "x")),
        (b'{"a": [{"b": 7}]}', ("number", 7)),
        (b'{"a": [{"b": "7"}]}', ("text", "7")),
        (b'{"a": [{"b": 18446744073709551615}]}', ("number", 2**64 - 1)),
        (b'{"a": [{"b": 18446744073709551616}]}', None),
        (b'{"a": [{"b": -9223372036854775809}]}', None),
        (b'{"a": [{"b": 7.0}]}', None),
        (b'{"a": [{"b": true}]}', None),
        (b'{"a": [{"b": null}]}', None),
        (b'{"a": [{"b": ""}]}', None),
        (b'{"a": [{"b": ["x"]}]}', None),
        (b'{"a": [{"c": "x"}]}', None),
        (b'{"a": {"0": {"b": "x"}}}', None),
        (b'{"a": ["b"]}', None),
        (b'{"a": [{"b": "x"}]} ', ("text", "x")),
        (b'{"a": [{"b": "x"}]},', None),
        (b'{"a": [{"b": "x", "b": "y"}]}', ("text", "y")),
        (b'{"a": [{"b": "\\u0078"}]}', ("text", "x")),
        (b'{"a": [{"b": "\\ud800"}]}', None),
        (b'{"a": [{"b": "x", "c": NaN}]}', None),
        (b'{"a": [{"b": "\xff"}]}', None),
        (b"", None),
        (None, None),
    ],
)
def test_text_and_whole_numbers_at_the_path_are_ids(value: bytes | None, expected: object) -> None:
    assert json_id("a", 0, "b")(record(0, None, value)) == expected


def test_no_value_however_hostile_is_too_much() -> None:
    ids = [json_id("order", "id")(record(0, None, value)) for value in VALUES]
    assert any(ids)
    assert not all(ids)


def test_content_is_key_and_value_and_nothing_else() -> None:
    same = [
        record(0, b"k", b"v"),
        record(1, b"k", b"v", headers=(("h", b"1"),)),
        record(2, b"k", b"v", timestamp_ms=9),
    ]
    assert len({content_id(each) for each in same}) == 1
    different = [(b"ab", b"c"), (b"a", b"bc"), (None, b"abc"), (b"", b"abc"), (b"abc", None)]
    assert len({content_id(record(0, key, value)) for key, value in different}) == len(different)


def test_content_of_nothing_is_no_id() -> None:
    assert content_id(record(0, None, None)) is None
    assert content_id(record(0, b"", None)) is not None
