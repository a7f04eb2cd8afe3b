"""The command `dedupe-pipeline land`."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Unpack

import click

from dedupe_crds.command_line import DurationType
from dedupe_crds.stop_signals import StopSignals
from dedupe_pipeline.cli_options import (
    AGAIN,
    DIRECTORY,
    Common,
    common_options,
    errors_reported,
    resolve_target,
)
from dedupe_pipeline.cli_table import (
    check_only_for_files,
    table_options,
    table_target,
)
from dedupe_pipeline.jobs.land.job import land
from dedupe_pipeline.jobs.land.table_job import TableOptions, land_table
from dedupe_pipeline.jobs.streaming import describe_left
from dedupe_pipeline.progress.streaming_job import StreamingJob, metrics_options
from dedupe_pipeline.report.report import Report, report_options


@click.command("land")
@common_options
@table_options
@report_options
@click.option(
    "--output",
    type=DIRECTORY,
    help="Directory for the Parquet files, in date=…/ subdirectories.",
)
@click.option(
    "--checkpoint",
    type=DIRECTORY,
    help="Directory for the progress of the job; on the same file system. [OUTPUT.checkpoint]",
)
@click.option(
    "--every",
    type=DurationType(),
    help="Keep running and land new records at this interval, such as 30s.",
)
@click.option(
    "--max-offsets-per-trigger", type=click.IntRange(min=1), default=500_000, show_default=True
)
@metrics_options
@click.option(
    "--json-schema",
    metavar="DDL",
    help='Land the parsed value as well: "id STRING, n INT". The text of others is in _corrupt.',
)
def land_command(
    *,
    table_format: str,
    table: str | None,
    warehouse: str | None,
    partition_by: tuple[str, ...],
    compact_every: int | None,
    output: Path | None,
    checkpoint: Path | None,
    every: timedelta | None,
    max_offsets_per_trigger: int,
    json_schema: str | None,
    metrics_port: int | None,
    metrics_host: str,
    report: Report,
    **common: Unpack[Common],
) -> None:
    """Land the output topic by date, each record exactly once.

    As Parquet files on a file system that can rename, or in a table of Iceberg or Delta Lake.
    """
    with errors_reported(), StopSignals() as signals:
        destination = table_target(table_format, table, warehouse)
        options = TableOptions(json_schema, partition_by, compact_every)
        check_only_for_files(destination, options, output, checkpoint)
        target = resolve_target(**common)
        topics = [target.stream.spec.output.topic]
        shown = table or str(output)
        job = StreamingJob("land", target.stream, shown, every=every, report=report)
        metrics = job.serve(metrics_host, metrics_port)
        with (
            target.spark("land", topics, signals, report, table=destination) as spark,
            job.watched(spark, metrics) as on_written,
        ):
            land_there = (
                partial(land_table, spark, target.stream, destination, options)
                if destination
                else partial(
                    land,
                    spark,
                    target.stream,
                    (output or Path()).absolute(),
                    checkpoint=checkpoint and checkpoint.absolute(),
                    json_schema=json_schema,
                )
            )
            landed = land_there(
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
                spark_kafka_options=target.connection.source_options,
                every=every,
                max_offsets_per_trigger=max_offsets_per_trigger,
                stop=signals.stop,
                on_written=on_written,
            )
        done = f"{landed.records:,} records in {landed.batches} batches in {shown}"
        if landed.left and every is None:
            signals.interrupt(f"after {done}; {describe_left(landed.left)}; {AGAIN}")
    unread = f"; values that are not of --json-schema: {landed.corrupt:,}" if json_schema else ""
    report.result(f"landed {done}{unread}", records=landed.records, batches=landed.batches)
