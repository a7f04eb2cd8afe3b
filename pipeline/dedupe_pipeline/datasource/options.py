"""Parse and check the options of the data source, once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from dedupe_filters.selection import GAP_OFFSETS, Place, Selection
from dedupe_filters.values import FilterSource, Wanted
from dedupe_kafka.errors import InvalidConfig
from dedupe_pipeline.datasource.arrow import NO_COLUMNS, AddedColumns, spark_schema

_PROPERTY: Final = "kafka."
_KNOWN: Final = (
    "bootstrapServers",
    "topic",
    "filter",
    "matchUnfiltered",
    "header",
    "jsonPath",
    "filterColumn",
    "timestampMsColumn",
    "pushFilters",
    "startingOffsets",
    "endingOffsets",
    "minPartitions",
    "maxRecordsPerTrigger",
    "gapOffsets",
)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The records to read, and their division among tasks.

    `added` names additional columns; with `push_filters` conditions on that of the value are pushed down.
    `starting` and `ending` are offsets or names of them. `min_partitions` is the minimum of tasks, if there is enough
    work.
    """

    selection: Selection
    added: AddedColumns = NO_COLUMNS
    push_filters: bool = False
    starting: Place = "earliest"
    ending: Place = "latest"
    min_partitions: int = 1
    max_records_per_trigger: int | None = None


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a reader; their names are not case-sensitive.

    Raises InvalidConfig for an option that is unknown, missing or invalid.
    """
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given)
    added = _added(given)
    push_filters = _flag(given, "pushFilters")
    if push_filters and added.value is None:
        raise InvalidConfig("option pushFilters needs option filterColumn: set it as well")
    return ReadOptions(
        selection=Selection(
            bootstrap_servers=_required(given, "bootstrapServers"),
            topic=_required(given, "topic"),
            wanted=_wanted(given),
            source=_source(given),
            gap_offsets=_number(given, "gapOffsets", GAP_OFFSETS, least=0),
            properties={
                name.removeprefix(_PROPERTY): value
                for name, value in given.items()
                if name.startswith(_PROPERTY)
            },
        ),
        added=added,
        push_filters=push_filters,
        starting=_place(given, "startingOffsets", "earliest"),
        ending=_place(given, "endingOffsets", "latest"),
        min_partitions=_number(given, "minPartitions", 1, least=1),
        max_records_per_trigger=_number(given, "maxRecordsPerTrigger", 0, least=1) or None,
    )


def _added(given: Mapping[str, str]) -> AddedColumns:
    taken = list(spark_schema(NO_COLUMNS).names)
    for option in ("timestampMsColumn", "filterColumn"):
        column = given.get(option.lower())
        if column is not None and (column in taken or not column):
            raise InvalidConfig(
                f"option {option}: {column!r} is empty or one of {', '.join(taken)}; choose another name"
            )
        taken += [column] if column else []
    return AddedColumns(
        value=given.get("filtercolumn"), timestamp_ms=given.get("timestampmscolumn")
    )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = {name.lower() for name in _KNOWN}
    for name in given:
        if name not in known and not name.startswith(_PROPERTY):
            raise InvalidConfig(
                f"option {name} is unknown; known are {', '.join(_KNOWN)}, and kafka.PROPERTY for librdkafka's "
                "client properties"
            )


def _required(given: Mapping[str, str], name: str) -> str:
    if value := given.get(name.lower()):
        return value
    raise InvalidConfig(f"option {name} is missing; set it with .option({name!r}, …)")


def _wanted(given: Mapping[str, str]) -> Wanted | None:
    unfiltered = _flag(given, "matchUnfiltered")
    text = given.get("filter")
    if text is None:
        if unfiltered:
            raise InvalidConfig(
                'option matchUnfiltered needs option filter; to read only records without a value, set filter to "[]"'
            )
        return None
    return Wanted.of(_values(text), unfiltered=unfiltered)


def _values(text: str) -> list[str]:
    """Parse one value, or a JSON array of values."""
    if text and not text.startswith("["):
        return [text]
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, list) or not all(
        isinstance(value, str) and value for value in values
    ):
        raise InvalidConfig(
            f'option filter: {text!r} is neither a value nor a JSON array of values, such as ["DE", "FR"]'
        )
    return values


def _source(given: Mapping[str, str]) -> FilterSource | None:
    header, path = given.get("header"), given.get("jsonpath")
    if header is not None and path is not None:
        raise InvalidConfig("options header and jsonPath exclude each other; remove one")
    if header is not None:
        return FilterSource.header(header)
    return None if path is None else FilterSource.json_path(path, "option jsonPath")


def _place(given: Mapping[str, str], name: str, default: Literal["earliest", "latest"]) -> Place:
    text = given.get(name.lower(), default)
    if text in {"earliest", "latest"}:
        return "earliest" if text == "earliest" else "latest"
    try:
        offsets = {int(partition): offset for partition, offset in json.loads(text).items()}
    except (AttributeError, ValueError):
        offsets = {}
    if not offsets or not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
        raise InvalidConfig(
            f"option {name}: {text!r} is neither earliest nor latest nor offsets by partition, such as "
            '{"0": 100, "1": 0}'
        )
    return offsets


def _number(given: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    if text.isascii() and text.isdigit() and int(text) >= least:
        return int(text)
    raise InvalidConfig(f"option {name}: {text!r} is not a whole number of at least {least}")


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name.lower(), "false").lower()
    if text not in {"true", "false"}:
        raise InvalidConfig(f"option {name}: {text!r} is neither true nor false")
    return text == "true"
