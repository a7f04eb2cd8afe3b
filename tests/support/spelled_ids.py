"""Ids in every spelling, as columns of files have them, and the records that they are the ids of."""

import json
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.column_ids import IdType
from tests.support.checker.record import Message

KEY: Final = IdSource.model_validate({"from": "Key"})
HEADER: Final = IdSource.model_validate({"from": "Header", "name": "id"})
JSON: Final = IdSource.model_validate({"from": "JsonPath", "path": "$.id"})
SOURCES: Final = (KEY, HEADER, JSON)

REFUSED: Final = "refused"

_UUID: Final = "0b5ff7f4-6e9c-4b3f-9d3e-3f1f9a6d2c11"
_SPELLINGS_OF_A_UUID: Final = (
    _UUID,
    _UUID.upper(),
    _UUID.replace("-", ""),
    f"{{{_UUID}}}",
    f"urn:uuid:{_UUID}",
)
_TEXTS: Final = (
    "a",
    "naïve 🙂",
    'a"b',
    "a\\b",
    "a,b",
    "c\\",
    " a ",
    "NULL",
    "null",
    "nan",
    "true",
    "#1",
    *_SPELLINGS_OF_A_UUID,
)
_NUMBERS: Final = ("0", "17", "-17", str(2**63 - 1), str(-(2**63)))
_UNSIGNED: Final = (str(2**63), str(2**64 - 1))
_NO_NUMBERS: Final = (
    "007",
    "+17",
    " 17",
    "17 ",
    "1.0",
    "1e3",
    "-0",
    str(2**64),
    "1_000",
    "\u0661\u0667",
)


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """A cell of a column, and what a worker finds in a record with this id.

    `kind` is csv or the Arrow type of a Parquet column; `told` the option for the type. `raw` is the id in a key or a
    header, and `in_json` that at the path, REFUSED if no record can have it or it can't be told.
    """

    kind: pa.DataType | str
    cell: Any
    told: IdType | None = None
    raw: bytes | str = REFUSED
    in_json: Any = REFUSED
    in_spark: bool = True

    def __str__(self) -> str:
        return f"{self.kind} {self.cell!r} {self.told or ''}"

    def record(self, source: IdSource) -> Message | None:
        """Return a record with this id, or None if the cell is refused."""
        if source is JSON:
            if self.in_json is REFUSED:
                return None
            value = json.dumps({"id": self.in_json}).encode()
            return Message(partition=0, key=None, value=value)
        if not isinstance(self.raw, bytes):
            return None
        if source is KEY:
            return Message(partition=0, key=self.raw, value=b"")
        return Message(partition=0, key=None, value=b"", headers=(("id", self.raw),))


def _text(kind: pa.DataType | str, text: str, **more: Any) -> Spelling:  # noqa: ANN401 # any field
    given = {"cell": text, "raw": text.encode(), "in_json": text}
    return Spelling(kind=kind, **given | more)


def _spellings() -> list[Spelling]:
    text, number = IdType.TEXT, IdType.NUMBER
    found = [_text(kind, each) for kind in ("csv", pa.string()) for each in _TEXTS]
    for each in (*_TEXTS, *_NUMBERS, *_NO_NUMBERS):
        found += [_text(kind, each, told=text) for kind in ("csv", pa.string())]
    for each in (*_TEXTS, *_NO_NUMBERS):
        found.append(_text("csv", each, told=number, raw=REFUSED, in_json=REFUSED))
    for each in _NO_NUMBERS:
        found += [_text(kind, each) for kind in ("csv", pa.string())]
    for each in (*_NUMBERS, *_UNSIGNED):
        found.append(_text("csv", each, in_json=REFUSED))
        found.append(_text(pa.string(), each))
        for kind in ("csv", pa.string()):
            found.append(_text(kind, each, told=number, raw=REFUSED, in_json=int(each)))
    for each in _NUMBERS:
        whole = Spelling(kind=pa.int64(), cell=int(each), raw=each.encode(), in_json=int(each))
        found.append(whole)
        found.append(_text(pa.int64(), each, cell=int(each), told=text))
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()):
        found.append(Spelling(kind=kind, cell=17, raw=b"17", in_json=17))
    top = 2**64 - 1
    found.append(Spelling(kind=pa.uint64(), cell=top, raw=b"%d" % top, in_json=top, in_spark=False))
    sixteen = UUID(_UUID).bytes
    for kind in (pa.binary(), pa.binary(16)):
        found.append(Spelling(kind=kind, cell=sixteen, raw=sixteen))
        found.append(Spelling(kind=kind, cell=b"\xff" + b"1" * 15, raw=b"\xff" + b"1" * 15))
        found.append(_text(kind, "0123456789abcdef", cell=b"0123456789abcdef"))
    found.append(Spelling(kind=pa.binary(), cell=b"\xff17", raw=b"\xff17"))
    found.append(_text(pa.binary(), "17", cell=b"17"))
    found.append(_text(pa.binary(), "17", cell=b"17", told=number, raw=REFUSED, in_json=17))
    found.append(_text(pa.large_string(), "17"))
    found.append(_text(pa.dictionary(pa.int32(), pa.string()), "17"))
    for kind, cell in (
        (pa.decimal128(10, 0), Decimal(17)),
        (pa.decimal128(10, 2), Decimal("17.00")),
        (pa.float64(), 17.0),
        (pa.float32(), 17.0),
        (pa.bool_(), True),
        (pa.date32(), date(2026, 11, 29)),
        (pa.timestamp("us"), datetime(2026, 11, 29)),  # noqa: DTZ001 # a column without a zone
        (pa.list_(pa.string()), ["17"]),
        (pa.uuid(), sixteen),
    ):
        found += [Spelling(kind=kind, cell=cell, told=told) for told in (None, text)]
    return found


SPELLINGS: Final = _spellings()
