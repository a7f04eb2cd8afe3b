"""What every report consists of."""

from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """A table of texts: the first column is what a row is about, the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class Goal(NamedTuple):
    """What was wanted, and what was measured."""

    what: str
    wanted: str
    measured: str
    reached: bool
