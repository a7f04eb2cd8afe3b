"""Reasons for a record without a usable id: each by its name, and none for a record that has one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.extract import extractor_for
from dedupe_ids.missing import MissingId, WhyMissing, describe
from tests.support.traffic.hostile import VALUES
from tests.unit.worker.strategies import FakeRecord

KEY = IdSource.model_validate({"from": "Key"})
HEADER = IdSource.model_validate({"from": "Header", "name": "Id"})
JSON = IdSource.model_validate({"from": "JsonPath", "path": "$.order.id"})
CONTENT = IdSource.model_validate({"from": "Content"})


def with_value(value: bytes | None) -> FakeRecord:
    return FakeRecord(own_value=value)


def with_id(text: str) -> FakeRecord:
    return with_value(b'{"order": {"id": %s}}' % text.encode())


CASES = {
    "no key": (KEY, FakeRecord(own_value=b"v"), MissingId.NO_KEY),
    "empty key": (KEY, FakeRecord(own_key=b""), MissingId.EMPTY_ID),
    "no headers": (HEADER, FakeRecord(), MissingId.HEADER_ABSENT),
    "a header in another case": (
        HEADER,
        FakeRecord(own_headers=[("id", b"1")]),
        MissingId.HEADER_ABSENT,
    ),
    "a null header": (HEADER, FakeRecord(own_headers=[("Id", None)]), MissingId.EMPTY_ID),
    "an empty header": (HEADER, FakeRecord(own_headers=[("Id", b"")]), MissingId.EMPTY_ID),
    "tombstone": (JSON, with_value(None), MissingId.NO_VALUE),
    "empty value": (JSON, with_value(b""), MissingId.NOT_JSON),
    "text": (JSON, with_value(b"hello, world"), MissingId.NOT_JSON),
    "cut JSON": (JSON, with_value(b'{"order": {"id": "a"'), MissingId.NOT_JSON),
    "NaN": (JSON, with_id("NaN"), MissingId.NOT_JSON),
    "JSON that is too deep": (JSON, with_value(b"[" * 5000 + b"]" * 5000), MissingId.NOT_JSON),
    "Confluent, Avro": (JSON, with_value(b"\0\0\0\0\x07\x06abc"), MissingId.CONFLUENT_FORMAT),
    "Confluent, JSON": (
        JSON,
        with_value(b'\0\0\0\0\x07{"order": {"id": 1}}'),
        MissingId.CONFLUENT_FORMAT,
    ),
    "Avro, a file": (JSON, with_value(b"Obj\x01\x04\x14avro.codec"), MissingId.AVRO),
    "Avro, a single object": (JSON, with_value(b"\xc3\x01" + b"x" * 9), MissingId.AVRO),
    # 1: 150; 2: "order-1"; 3: a double
    "Protobuf": (
        JSON,
        with_value(b"\x08\x96\x01\x12\x07order-1\x19" + b"\0" * 8),
        MissingId.PROTOBUF,
    ),
    "Protobuf with a text alone": (JSON, with_value(b"\x0a\x05hello"), MissingId.PROTOBUF),
    "Protobuf that is cut": (JSON, with_value(b"\x0a\x05hell"), MissingId.NOT_JSON),
    "random bytes": (JSON, with_value(bytes(range(128, 250))), MissingId.NOT_JSON),
    "no such field": (JSON, with_value(b'{"order": {"ID": 1}}'), MissingId.PATH_ABSENT),
    "text on the way": (JSON, with_value(b'{"order": "id"}'), MissingId.PATH_ABSENT),
    "an empty text": (JSON, with_id('""'), MissingId.EMPTY_ID),
    "null": (JSON, with_id("null"), MissingId.WRONG_TYPE),
    "a truth value": (JSON, with_id("true"), MissingId.WRONG_TYPE),
    "a float": (JSON, with_id("1.5"), MissingId.WRONG_TYPE),
    "a float of no fraction": (JSON, with_id("1e18"), MissingId.WRONG_TYPE),
    "a large float": (JSON, with_id("1e30"), MissingId.NUMBER_TOO_LARGE),
    "minus zero": (JSON, with_id("-0.0"), MissingId.WRONG_TYPE),
    "a list": (JSON, with_id("[1]"), MissingId.WRONG_TYPE),
    "many fields of Protobuf": (JSON, with_value(b"\x08\x01" * 10_000), MissingId.PROTOBUF),
    "a long field of Protobuf that is cut": (
        JSON,
        with_value(b"\x08\x01\x12\xff\x7f" + b"\xf0" * 9_000),
        MissingId.NOT_JSON,
    ),
    "beside deep lists": (
        JSON,
        with_value(b'{"order": {"id": %d}, "deep": %s}' % (10**26, b"[" * 1000 + b"]" * 1000)),
        MissingId.NUMBER_TOO_LARGE,
    ),
    "2^64": (JSON, with_id(str(2**64)), MissingId.NUMBER_TOO_LARGE),
    "below -2^63": (JSON, with_id(str(-(2**63) - 1)), MissingId.NUMBER_TOO_LARGE),
    "nothing at all": (CONTENT, FakeRecord(), MissingId.NO_CONTENT),
}


@pytest.mark.parametrize(("source", "record", "why"), CASES.values(), ids=CASES.keys())
def test_each_record_without_an_id_has_its_reason(
    source: IdSource, record: FakeRecord, why: MissingId
) -> None:
    assert len(extractor_for(source)([record]).rows) == 0  # type: ignore[list-item] # Kafka's method names
    assert WhyMissing(source)(record) is why  # type: ignore[arg-type] # as above


@given(st.one_of(st.binary(), st.sampled_from([each for each in VALUES if each])))
def test_any_value_without_an_id_has_a_reason(value: bytes) -> None:
    record = with_value(value)
    if len(extractor_for(JSON)([record]).rows) == 0:  # type: ignore[list-item] # as above
        assert WhyMissing(JSON)(record) in MissingId  # type: ignore[arg-type] # as above


@given(st.one_of(st.integers(-(2**66), 2**66), st.floats(allow_nan=False, allow_infinity=False)))
def test_a_number_beyond_64_bits_is_called_too_large(number: float) -> None:
    record = with_id(json.dumps(number))
    if len(extractor_for(JSON)([record]).rows) == 0:  # type: ignore[list-item] # as above
        too_large = WhyMissing(JSON)(record) is MissingId.NUMBER_TOO_LARGE  # type: ignore[arg-type] # as above
        assert too_large == (abs(number) >= 2**63)


@pytest.mark.parametrize("why", MissingId)
def test_every_reason_has_a_phrase(why: MissingId) -> None:
    for source in (KEY, HEADER, JSON, CONTENT):
        assert "{" not in describe(why, source)


def test_a_phrase_names_the_header_or_the_path() -> None:
    assert describe(MissingId.HEADER_ABSENT, HEADER) == "no header 'Id'"
    assert describe(MissingId.PATH_ABSENT, JSON) == "nothing at $.order.id"
