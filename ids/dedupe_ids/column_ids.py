"""Decide which ids the cells of a file or a table stand for.

Invariant: an id that was read from a cell equals the id that a worker finds in the record that the cell was taken
from; a column that does not tell is refused. docs/bootstrap.md has the table of what each column means.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_ids.extract import is_number
from dedupe_kafka.errors import InvalidConfig


class IdType(StrEnum):
    """The type of an id in records: in JSON the text "17" and the number 17 differ."""

    TEXT = "text"
    NUMBER = "number"


class ColumnKind(StrEnum):
    """The types of columns that ids can be read from."""

    CSV = "CSV"
    TEXT = "text"
    WHOLE_NUMBER = "whole numbers"
    BYTES = "bytes"


class Refused(StrEnum):
    """The cells of a column that are refused."""

    NONE = "none"
    NUMBERS = "numbers"
    """Digits that may be a text or a number: nothing tells which of the two ids is meant."""
    NOT_NUMBERS = "not numbers"
    NOT_UTF8 = "not UTF-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdColumn:
    """A column of ids.

    `type` is that of all its ids. The id of a cell is its bytes, the UTF-8 bytes of its text, or the digits of its
    number. Empty cells have no id. `refused` are the cells that end the work, by `refuse`. `place` names the column
    in messages, and `option` how a user says the type.
    """

    type: IdType
    refused: Refused
    place: str
    option: str
    path: str

    def is_refused(self, cell: bytes) -> bool:
        """Return whether a cell that is not empty is refused."""
        return _TESTS[self.refused](cell)

    def refuse(self, cell: bytes) -> InvalidConfig:
        """Return the error for a cell that is refused."""
        shown = cell.decode(errors="backslashreplace")
        match self.refused:
            case Refused.NUMBERS:
                why = (
                    f"may be the text {shown!r} or the number {shown}, which are two ids in JSON, and CSV has only "
                    f"text: add {self.option} text or {self.option} number, as the records have it at {self.path}"
                )
            case Refused.NOT_NUMBERS:
                why = (
                    f"is not a whole number of 64 bits as JSON spells it, without spaces, plus sign, leading zeros or "
                    f"a point, and {self.option} is number: correct it, or use {self.option} text"
                )
            case _:
                why = (
                    "is not UTF-8, so that no text in JSON equals it: convert the column to text, as the records "
                    f"spell it at {self.path}"
                )
        return InvalidConfig(f"{self.place}: the id {shown!r} {why}")


_TESTS: Final[dict[Refused, Callable[[bytes], bool]]] = {
    Refused.NONE: lambda _: False,
    Refused.NUMBERS: is_number,
    Refused.NOT_NUMBERS: lambda cell: not is_number(cell),
    Refused.NOT_UTF8: lambda cell: not _is_utf8(cell),
}


def id_column(
    kind: ColumnKind | None,
    source: IdSource,
    told: IdType | None,
    *,
    place: str,
    shown_type: str,
    option: str,
) -> IdColumn:
    """Return how the ids of a column are read; `told` is the type that a user gives.

    `kind` is None for a column of a type that holds no ids; `shown_type` names the type in messages.

    Raises InvalidConfig for a column that can't hold ids of this stream, or not of the type that the user gives.
    """
    if source.from_ is IdFrom.CONTENT:
        raise InvalidConfig(
            "spec.id.from is Content: such ids are hashes of whole records, and can only be read --from topic:NAME"
        )
    in_json = source.from_ is IdFrom.JSON_PATH
    if told is IdType.NUMBER and not in_json:
        raise InvalidConfig(
            f"{option} number is for ids from JSON. spec.id.from is {source.from_}, whose ids are text or bytes: omit "
            "the option"
        )
    if kind is None:
        raise InvalidConfig(
            f"{place}: ids can't be read from the type {shown_type}. Convert the column to text, as the records spell "
            "the id"
            + (
                ", or to whole numbers of 64 bits if they have numbers"
                if in_json
                else ", or to bytes"
            )
        )
    if not in_json:
        return _read(IdType.TEXT, Refused.NONE, place, option, source)
    if kind is ColumnKind.WHOLE_NUMBER:
        return _read(told or IdType.NUMBER, Refused.NONE, place, option, source)
    if told is IdType.NUMBER:
        return _read(IdType.NUMBER, Refused.NOT_NUMBERS, place, option, source)
    if kind is ColumnKind.CSV and told is None:
        return _read(IdType.TEXT, Refused.NUMBERS, place, option, source)
    refused = Refused.NONE if kind is ColumnKind.TEXT else Refused.NOT_UTF8
    return _read(IdType.TEXT, refused, place, option, source)


def _read(type_: IdType, refused: Refused, place: str, option: str, source: IdSource) -> IdColumn:
    return IdColumn(type=type_, refused=refused, place=place, option=option, path=source.path or "")


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True
