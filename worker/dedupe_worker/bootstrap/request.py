"""What a user asks for, on either command line. Loads nothing that the worker itself does not."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import click

from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.partitioners import Partitioner

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The names of the columns."""

    id: str = "id"
    time: str = "time"
    partition: str = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asks for. `source` is topic:NAME or a path; see `request_options` for the others."""

    source: str
    columns: Columns
    partition_by: Partitioner | None
    before: datetime | None
    work_dir: Path | None


def request_options(command: Command) -> Command:
    """The options that `make_request` takes."""
    names = Columns()
    for decorate in (
        click.option(
            "--work-dir",
            type=click.Path(file_okay=False, path_type=Path),
            help="Where sorted pieces wait, 24 bytes for each id read and 37 for each kept. "
            "Default: in the state directory.",
        ),
        click.option(
            "--before",
            metavar="TIME",
            help="Take only ids seen before, as 2026-11-21T10:00:00Z.",
        ),
        click.option(
            "--partition-by",
            type=click.Choice([one.value for one in Partitioner]),
            help="How producers choose a key's partition, where the source does not tell: murmur2 (Java clients) or "
            "crc32 (librdkafka).",
        ),
        click.option("--partition-column", default=names.partition, show_default=True),
        click.option("--time-column", default=names.time, show_default=True),
        click.option("--id-column", default=names.id, show_default=True),
        click.option(
            "--from",
            "source",
            required=True,
            metavar="SOURCE",
            help="topic:NAME, a .parquet, .csv or .csv.gz file, or a directory of them.",
        ),
    ):
        command = decorate(command)
    return command


class RequestValues(TypedDict):
    """What click makes of the options."""

    source: str
    id_column: str
    time_column: str
    partition_column: str
    partition_by: str | None
    before: str | None
    work_dir: Path | None


def make_request(**values: Unpack[RequestValues]) -> Request:
    """From the options' values. Raises InvalidConfig."""
    partition_by, before = values["partition_by"], values["before"]
    return Request(
        source=values["source"],
        columns=Columns(
            id=values["id_column"],
            time=values["time_column"],
            partition=values["partition_column"],
        ),
        partition_by=Partitioner(partition_by) if partition_by else None,
        before=_time(before) if before else None,
        work_dir=values["work_dir"],
    )


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidConfig(f"--before: {error}; write it as 2026-11-21T10:00:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
