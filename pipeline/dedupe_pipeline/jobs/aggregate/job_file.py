"""The job file of `aggregate`: measures, keys and windows.

    table: flights_hourly
    schema: carrier STRING, time_hour TIMESTAMP, dep_delay INT
    eventTime: time_hour
    window: 1h
    watermark: 2h
    keys: [carrier]
    measures:
      departures: count(dep_delay)
      delay_minutes: sum(dep_delay)

Expressions are Spark SQL on the fields of `schema` and on `record`, a struct of the Kafka record:
`key` (text), `timestamp`, `partition`, `offset`, `headers`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from dedupe_crds.base import Model
from dedupe_crds.errors import explain
from dedupe_crds.manifest import ManifestError, read_yaml
from dedupe_crds.quantity import Duration, format_duration
from dedupe_crds.rules import duration_between, matching, shown

RECORD = "record"
WINDOW_START = "window_start"
WINDOW_END = "window_end"
LATE = "late"
MOST_WINDOWS = 100
"""The maximum of windows for one record; each is a row to compute."""

_RESERVED = (WINDOW_START, WINDOW_END, LATE)
_MEASURE = re.compile(r"\s*(count|sum|min|max)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)


class Late(StrEnum):
    """The handling of a record whose window is closed."""

    COUNT = "Count"
    DROP = "Drop"


class Function(StrEnum):
    """The measures that can be updated incrementally."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A function of an expression; `of` is `*` in count(*)."""

    function: Function
    of: str

    def __str__(self) -> str:
        return f"{self.function}({self.of})"


def _measure(text: object) -> Measure:
    if isinstance(text, Measure):
        return text
    found = _MEASURE.fullmatch(text) if isinstance(text, str) else None
    if found is None or not found[2].strip():
        raise ValueError(
            f"{shown(text)} is not a measure; write count(*), or count, sum, min or max of an "
            "expression. A mean is a sum divided by a count, when the table is read"
        )
    function, of = Function(found[1].lower()), found[2].strip()
    if of == "*" and function is not Function.COUNT:
        raise ValueError(f"{shown(text)}: only count takes *; name what to take the {function} of")
    return Measure(function=function, of=of)


def _keys(given: object) -> object:
    """Convert a list of fields to columns of the same names."""
    if isinstance(given, list) and all(isinstance(key, str) for key in given):
        if len(set(given)) < len(given):
            raise ValueError("a key is given twice")
        return {key: key for key in given}
    return given


ColumnName = Annotated[
    str,
    Field(min_length=1, max_length=63),
    matching(
        "[a-z][a-z0-9_]*",
        "must be a column's name: lower-case letters, digits and '_', beginning with a letter",
    ),
]
TableName = Annotated[
    str,
    Field(min_length=1, max_length=112),
    # This leaves room for the suffix of the view.
    matching(
        r"([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,47}",
        "must be a table's name of at most 48 lower-case letters, digits and '_', preceded by its "
        "schema and a dot if it is not in the search path",
    ),
]
Expression = Annotated[str, Field(min_length=1, max_length=4096)]
WrittenMeasure = Annotated[
    Measure, BeforeValidator(_measure), PlainSerializer(str, return_type=str)
]


class AggregateJob(Model):
    """Windowed counts and sums of a topic's records, kept in a table of PostgreSQL."""

    table: TableName = Field(description="The table for the rows; created if absent.")
    schema_: Expression | None = Field(
        default=None,
        alias="schema",
        description="The fields of the JSON value to use, as Spark DDL: "
        "'carrier STRING, delay INT'; none if absent.",
    )
    event_time: Expression = Field(
        default=f"{RECORD}.timestamp",
        description="The event time: an expression that returns a timestamp.",
    )
    window: Annotated[Duration, duration_between("1s", "3650d")] = Field(
        description="Length of a window. Windows begin at multiples of it since 1970 in UTC."
    )
    slide: Annotated[Duration, duration_between("1s", "3650d")] | None = Field(
        default=None,
        description="A window begins at each multiple of this, so that a record is in several; "
        "if absent, windows do not overlap.",
    )
    watermark: Annotated[Duration, duration_between("0s", "3650d")] | None = Field(
        default=None,
        description="A window is closed for a partition when the partition's newest event time is this far past "
        "the window's end; windows never close if absent.",
    )
    late: Late = Field(
        default=Late.COUNT,
        description="Count: the number of records that came too late for a window is in its column `late`. "
        "Drop: only their total is stored.",
    )
    where: Expression | None = Field(
        default=None, description="A condition: only records for which it is true are counted."
    )
    keys: Annotated[dict[ColumnName, Expression], BeforeValidator(_keys)] = Field(
        default={}, description="Columns to group by, as a list of fields or name: expression."
    )
    measures: dict[ColumnName, WrittenMeasure] = Field(
        description="Columns for counts and sums, as name: expression, such as count(*) or sum(delay)."
    )

    @field_validator("slide")
    @classmethod
    def _slides_divide_windows(
        cls, slide: timedelta | None, info: ValidationInfo
    ) -> timedelta | None:
        window = info.data.get("window")
        if slide and window and (window % slide or window // slide > MOST_WINDOWS):
            raise ValueError(
                f"{format_duration(slide)} does not divide the window of {format_duration(window)} "
                f"into at most {MOST_WINDOWS} equal parts"
            )
        return slide

    @field_validator("keys", "measures")
    @classmethod
    def _names_are_free(cls, given: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        if taken := [name for name in given if name in (*_RESERVED, *info.data.get("keys", ()))]:
            raise ValueError(f"{taken[0]} is the name of another column; choose another")
        return given

    @field_validator("measures")
    @classmethod
    def _something_is_measured(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if not given:
            raise ValueError("is empty; write at least one measure, such as records: count(*)")
        return given

    @property
    def counts_late(self) -> bool:
        """Return whether the table has the column `late`."""
        return self.watermark is not None and self.late is Late.COUNT

    def definition(self) -> dict[str, Any]:
        """Return the job by the fields' names in the file, without the table's name."""
        definition: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude={"table"})
        return definition


def load_job(path: Path) -> AggregateJob:
    """Read a job file.

    Raises:
        ManifestError: it cannot be read, is not YAML, or is not a valid job.
    """
    source = str(path)
    documents = read_yaml(path)
    if len(documents) != 1:
        raise ManifestError(source, [f"needs exactly one job; found: {len(documents)}"])
    try:
        return AggregateJob.model_validate(documents[0], by_alias=True, by_name=False)
    except ValidationError as error:
        raise ManifestError(source, explain(error, documents[0], AggregateJob)) from error
