"""Say why a record has no usable id.

Only records that `extract` found no id in are asked, so that this costs nothing for the others.
"""

from enum import StrEnum
from typing import Final, assert_never

import orjson
from confluent_kafka import Message

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_kafka.headers import headers_of
from dedupe_kafka.json_path import ABSENT, SingularPath


class MissingId(StrEnum):
    """Reasons why a record has no usable id.

    docs/operations.md explains each; a test checks that.
    """

    NO_KEY = "NoKey"
    HEADER_ABSENT = "HeaderAbsent"
    NO_VALUE = "NoValue"
    CONFLUENT_FORMAT = "ConfluentFormat"
    AVRO = "Avro"
    PROTOBUF = "Protobuf"
    NOT_JSON = "NotJson"
    PATH_ABSENT = "PathAbsent"
    WRONG_TYPE = "WrongType"
    NUMBER_TOO_LARGE = "NumberTooLarge"
    EMPTY_ID = "EmptyId"
    NO_CONTENT = "NoContent"


_PHRASES: Final = {
    MissingId.NO_KEY: "no key",
    MissingId.HEADER_ABSENT: "no header {source}",
    MissingId.NO_VALUE: "no value",
    MissingId.CONFLUENT_FORMAT: (
        "a value in Confluent's wire format (a zero byte and the number of a schema come first), not JSON"
    ),
    MissingId.AVRO: "a value in Avro, not JSON",
    MissingId.PROTOBUF: "a value that looks like Protobuf, not JSON",
    MissingId.NOT_JSON: "a value that is not JSON",
    MissingId.PATH_ABSENT: "nothing at {source}",
    MissingId.WRONG_TYPE: "neither text nor a whole number at {source}",
    MissingId.NUMBER_TOO_LARGE: "a number beyond 64 bits at {source}",
    MissingId.EMPTY_ID: "an empty id",
    MissingId.NO_CONTENT: "neither key nor value",
}

_TOO_LARGE: Final = 2**63
_AVRO_FILE: Final = b"Obj\x01"
_AVRO_SINGLE_OBJECT: Final = b"\xc3\x01"
_CONFLUENT_BYTES: Final = 5

# Protobuf's wire types: 0 is a varint; 3 and 4, groups, are out of use.
_LENGTH_DELIMITED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}
_PROTOBUF_BYTES: Final = 4096
_PROTOBUF_KINDS: Final = (0, _LENGTH_DELIMITED, *_FIXED_BYTES)


def describe(why: MissingId, source: IdSource) -> str:
    """Return what such a record has, as a phrase: "no header 'Id'"."""
    return _PHRASES[why].format(source=repr(source.name) if source.name else source.path)


class WhyMissing:
    """Callable that says why a record has no id by `spec.id`.

    Raises InvalidConfig for a JSONPath that can't select exactly one value.
    """

    def __init__(self, source: IdSource) -> None:
        self._source = source
        self._path = SingularPath(source.path, "spec.id.path") if source.path else None

    def __call__(self, record: Message) -> MissingId:
        """Return the reason, for a record in which the extractor found no id."""
        match self._source.from_:
            case IdFrom.KEY:
                return MissingId.NO_KEY if record.key() is None else MissingId.EMPTY_ID
            case IdFrom.HEADER:
                names = [name for name, _ in headers_of(record) or ()]
                return MissingId.EMPTY_ID if self._source.name in names else MissingId.HEADER_ABSENT
            case IdFrom.JSON_PATH:
                return self._in_value(record.value())
            case IdFrom.CONTENT:
                return MissingId.NO_CONTENT
            case never:
                assert_never(never)

    def _in_value(self, value: bytes | None) -> MissingId:
        if value is None:
            return MissingId.NO_VALUE
        try:
            document = orjson.loads(value)
        except orjson.JSONDecodeError:
            return _format_of(value)
        assert self._path is not None  # noqa: S101 (for the type checker: the model asks for one)
        node = self._path.node(document)
        if node is ABSENT:
            return MissingId.PATH_ABSENT
        if node == "":
            return MissingId.EMPTY_ID
        # orjson makes a float of an integer beyond 64 bits.
        if isinstance(node, float) and abs(node) >= _TOO_LARGE:
            return MissingId.NUMBER_TOO_LARGE
        return MissingId.WRONG_TYPE


def _format_of(value: bytes) -> MissingId:
    """Return the format of a value that is not JSON, if it can be recognised."""
    if value.startswith(b"\0") and len(value) > _CONFLUENT_BYTES:
        return MissingId.CONFLUENT_FORMAT
    if value.startswith((_AVRO_FILE, _AVRO_SINGLE_OBJECT)):
        return MissingId.AVRO
    if _looks_like_protobuf(value):
        return MissingId.PROTOBUF
    return MissingId.NOT_JSON


def _looks_like_protobuf(value: bytes) -> bool:
    """Return whether a value is whole fields of Protobuf, and not text.

    A message of Protobuf has no mark, so this is a guess, by the first fields of a large one.
    """
    if not value or _is_text(value):
        return False
    at = 0
    while at < min(len(value), _PROTOBUF_BYTES):
        tag, at = _varint(value, at)
        field, kind = tag >> 3, tag & 7
        if field < 1 or kind not in _PROTOBUF_KINDS:
            return False
        if kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
            continue
        number, at = _varint(value, at)
        if number < 0:
            return False
        at += number if kind == _LENGTH_DELIMITED else 0
    return at == len(value) or _PROTOBUF_BYTES <= at < len(value)


def _varint(value: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position and the position after it.

    The number is -1 if it has no end.
    """
    number = shift = 0
    for end in range(at, min(at + 10, len(value))):
        number |= (value[end] & 0x7F) << shift
        if value[end] < 0x80:
            return number, end + 1
        shift += 7
    return -1, at


def _is_text(value: bytes) -> bool:
    try:
        return value.decode().isprintable()
    except UnicodeDecodeError:
        return False
