"""The options of `dedupe-pipeline` commands that name a table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dedupe_pipeline.jobs.land.table_job import TableOptions
from dedupe_pipeline.table_target import TableFormat, TableTarget

Command = TypeVar("Command", bound=Callable[..., Any])
_PARQUET = "parquet"


warehouse_option = click.option(
    "--warehouse",
    metavar="DIRECTORY",
    help="Directory of Iceberg tables. Configure other catalogs with --conf spark.sql.catalog.…",
)


def table_options(command: Command) -> Command:
    """Add the options of a table to a command that writes one."""
    for decorate in (
        click.option(
            "--compact-every",
            type=click.IntRange(min=1),
            metavar="BATCHES",
            help="Compact the table after this number of batches, with its format's own procedures.",
        ),
        click.option(
            "--partition-by",
            metavar="COLUMN",
            multiple=True,
            help="Partition a new table by this as well, besides the day; of Iceberg also 'bucket(16, key)' "
            "(repeatable).",
        ),
        warehouse_option,
        click.option(
            "--table",
            metavar="NAME",
            help="Table instead of --output: CATALOG.SCHEMA.TABLE of Iceberg; SCHEMA.TABLE, a path or a URL of Delta.",
        ),
        click.option(
            "--format",
            "table_format",
            type=click.Choice([_PARQUET, *(each.value for each in TableFormat)]),
            default=_PARQUET,
            show_default=True,
        ),
    ):
        command = decorate(command)
    return command


def table_target(table_format: str, table: str | None, warehouse: str | None) -> TableTarget | None:
    """Return the table that the options name, None for files."""
    if table_format == _PARQUET:
        if table is not None or warehouse is not None:
            raise click.UsageError("--table and --warehouse need --format iceberg or delta")
        return None
    if table is None:
        raise click.UsageError(f"--format {table_format} needs --table")
    return TableTarget(format=TableFormat(table_format), name=table, warehouse=warehouse)


def landed_table(text: str | None, warehouse: str | None) -> TableTarget | None:
    """Return the table of --landed."""
    if text is None:
        return None
    found = TableTarget.parse(text, warehouse)
    if found is None:
        raise click.BadParameter(
            f"{text!r} is not iceberg:CATALOG.SCHEMA.TABLE or delta:NAME", param_hint="--landed"
        )
    return found


def check_only_for_files(
    target: TableTarget | None,
    options: TableOptions,
    output: Path | None,
    checkpoint: Path | None,
) -> None:
    """Refuse options of files with a table, and options of tables with files."""
    if target is None:
        if output is None:
            raise click.UsageError("name --output, or --table with --format iceberg or delta")
        if options.partition_by or options.compact_every:
            raise click.UsageError("--partition-by and --compact-every are for tables")
    elif output is not None or checkpoint is not None:
        raise click.UsageError(
            "--output and --checkpoint are for --format parquet: a table contains its progress"
        )
