"""A second definition of a record's id, independent of the worker's code.

Ids are compared in full: the worker shortens them to 16 bytes, which must have no visible effect. Each function takes a
record and returns its id, or None for a record without an id.
"""

import json
import re
from collections.abc import Callable

from tests.support.checker.record import Message, Record

Id = bytes | tuple[object, ...]
IdOf = Callable[[Message | Record], Id | None]

_NESTING_LIMIT = 1024
_INTEGERS = range(-(2**63), 2**64)
_LONGEST_INTEGER = 20
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def key_id(record: Message | Record) -> Id | None:
    """Return the key, unless it is null or empty."""
    return record.key or None


def header_id(name: str) -> IdOf:
    """Take the last header of a name, unless it is null or empty."""

    def id_of(record: Message | Record) -> Id | None:
        values = [value for header, value in record.headers if header == name]
        return (values[-1] or None) if values else None

    return id_of


def json_id(*steps: str | int) -> IdOf:
    """Take the value at a path of names and indices in JSON.

    It counts if it is text or a whole number of 64 bits.
    """

    def id_of(record: Message | Record) -> Id | None:
        node = _parse(record.value)
        for step in steps:
            node = _child(node, step)
        if isinstance(node, str) and node:
            return ("text", node)
        if isinstance(node, int) and not isinstance(node, bool) and node in _INTEGERS:
            return ("number", node)
        return None

    return id_of


def content_id(record: Message | Record) -> Id | None:
    """Return key and value, unless both are null."""
    if record.key is None and record.value is None:
        return None
    return (record.key, record.value)


def _parse(value: bytes | None) -> object:
    """Parse strict JSON (RFC 8259); ambiguous JSON counts as null.

    It is ambiguous if parsers differ on it. Nesting of about 900 to 1024 levels is judged imprecisely: there Python's
    own limit decides.
    """
    try:
        text = (value or b"").decode("utf-8")
        if _nests_too_deep(text):
            return None
        node: object = json.loads(
            text, parse_int=_whole_number, parse_float=_finite, parse_constant=_refuse
        )
        json.dumps(node, ensure_ascii=False).encode("utf-8")  # refuses half a surrogate pair
    except (ValueError, RecursionError):
        return None
    return node


def _nests_too_deep(text: str) -> bool:
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > _NESTING_LIMIT:
            return True
    return False


def _whole_number(text: str) -> int | float:
    return int(text) if len(text) <= _LONGEST_INTEGER else _finite(text)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        _refuse(text)
    return number


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no JSON number that can be kept")


def _child(node: object, step: str | int) -> object:
    if isinstance(step, str):
        return node.get(step) if isinstance(node, dict) else None
    if isinstance(node, list) and -len(node) <= step < len(node):
        return node[step]
    return None
