"""The command `dedupe-pipeline JOB MANIFEST`: Spark jobs on a stream's topics.

Exit codes are those of `ExitStatus`.
"""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Unpack

import click

from dedupe_crds.command_line import DurationType, add_help_and_version
from dedupe_crds.exit_status import Commands
from dedupe_crds.stop_signals import StopSignals
from dedupe_ids.column_ids import IdType
from dedupe_kafka.client import read_properties
from dedupe_kafka.partitioners import Partitioner
from dedupe_pipeline.cli_audit import audit_command
from dedupe_pipeline.cli_land import land_command
from dedupe_pipeline.cli_options import (
    AGAIN,
    DIRECTORY,
    FILE,
    Common,
    common_options,
    errors_reported,
    id_type_option,
    resolve_target,
)
from dedupe_pipeline.cli_package import package_command
from dedupe_pipeline.cli_table import warehouse_option
from dedupe_pipeline.interruptible import interruptible
from dedupe_pipeline.jobs.aggregate import Postgres, aggregate, load_job
from dedupe_pipeline.jobs.bootstrap.job import PastIds, bootstrap
from dedupe_pipeline.jobs.streaming import describe_left
from dedupe_pipeline.progress.stages import stages_reported
from dedupe_pipeline.progress.streaming_job import StreamingJob, metrics_options
from dedupe_pipeline.report.report import Report, report_options

_SCATTERED = (
    "ids are in several partitions, so copies of an id do not meet in one worker, and pass. Create the stream with "
    "spec.repartition, or let producers send equal ids to one partition."
)


@click.group(cls=Commands)
def main() -> None:
    """Spark jobs over the topics of a DedupeStream.

    Exit codes: 0 done (an audit: no defects); 1 an audit found defects; 2 an option, the manifest or a file that they
    name is wrong; 3 the job could not run or finish; 4 an audit had nothing to judge; 143, 130 or 129 SIGTERM, SIGINT
    or SIGHUP ended it before it was done. With --every a signal is the usual end.
    """


@main.command("aggregate")
@common_options
@report_options
@click.argument("job_file", metavar="JOB", type=FILE)
@click.option(
    "--postgres-url",
    metavar="URL",
    help="postgresql://USER@HOST:PORT/DATABASE, without a password. [libpq's environment: PGHOST, PGSERVICE, …]",
)
@click.option(
    "--postgres-properties",
    type=FILE,
    help="libpq parameters (user, password, sslmode, …) as key=value lines; they take precedence over the URL.",
)
@click.option(
    "--every",
    type=DurationType(),
    help="Keep running and count new records at this interval, such as 30s.",
)
@click.option(
    "--max-offsets-per-trigger", type=click.IntRange(min=1), default=500_000, show_default=True
)
@metrics_options
@click.option(
    "--skip-deleted",
    is_flag=True,
    help="Continue if the topic deleted records before they were counted.",
)
def aggregate_command(
    *,
    job_file: Path,
    postgres_url: str | None,
    postgres_properties: Path | None,
    every: timedelta | None,
    max_offsets_per_trigger: int,
    skip_deleted: bool,
    metrics_port: int | None,
    metrics_host: str,
    report: Report,
    **common: Unpack[Common],
) -> None:
    """Count and sum the output topic in windows, into a PostgreSQL table.

    The file JOB defines windows, keys and measures. Each record is counted exactly once, also after crashes and
    retries. Passwords come from PGPASSFILE, a service file, PGPASSWORD or --postgres-properties.
    """
    with errors_reported(), StopSignals() as signals:
        target = resolve_target(**common)
        definition = load_job(job_file)
        properties = read_properties(postgres_properties, reserved=frozenset())
        postgres = Postgres.of(postgres_url, properties)
        job = StreamingJob("aggregate", target.stream, definition.table, every=every, report=report)
        metrics = job.serve(metrics_host, metrics_port)
        with (
            target.spark("aggregate", [target.stream.spec.output.topic], signals, report) as spark,
            job.watched(spark, metrics) as on_written,
        ):
            added = aggregate(
                spark,
                target.stream,
                definition,
                postgres,
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
                spark_kafka_options=target.connection.source_options,
                every=every,
                max_offsets_per_trigger=max_offsets_per_trigger,
                skip_deleted=skip_deleted,
                stop=signals.stop,
                on_written=on_written,
            )
        done = f"{added.records:,} records in {added.batches} batches to {definition.table}"
        if added.left and every is None:
            signals.interrupt(f"after {done}; {describe_left(added.left)}; {AGAIN}")
    report.result(
        f"added {done}; "
        f"late: {added.late:,}, filtered out: {added.filtered:,}, unusable: {added.unusable:,}",
        records=added.records,
        batches=added.batches,
        late=added.late,
        filtered=added.filtered,
        unusable=added.unusable,
    )


@main.command("bootstrap")
@common_options
@report_options
@click.option(
    "--from",
    "source",
    required=True,
    metavar="SOURCE",
    help="topic:NAME, a path of Parquet or CSV files, or a table: iceberg:NAME or delta:NAME, as of land --table.",
)
@warehouse_option
@click.option(
    "--output", type=DIRECTORY, required=True, help="Directory for the files; it must not exist."
)
@click.option("--id-column", default="id", show_default=True)
@id_type_option("--id-type")
@click.option("--time-column", default="time", show_default=True)
@click.option("--partition-column", default="partition", show_default=True)
@click.option(
    "--partition-by",
    type=click.Choice([partitioner.value for partitioner in Partitioner]),
    help="How producers choose a key's partition, if the source does not contain it: murmur2 (Java "
    "clients) or crc32 (librdkafka). Not with spec.repartition.",
)
@click.option(
    "--before",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S"]),
    help="Use only ids seen before this time, in UTC.",
)
def bootstrap_command(
    *,
    source: str,
    warehouse: str | None,
    output: Path,
    id_column: str,
    id_type: IdType | None,
    time_column: str,
    partition_column: str,
    partition_by: str | None,
    before: datetime | None,
    report: Report,
    **common: Unpack[Common],
) -> None:
    """Write ids delivered in the past to files for `dedupe bootstrap`.

    That command loads them into the stores of a new stream.
    """
    past = PastIds(
        source=source,
        warehouse=warehouse,
        id_column=id_column,
        id_type=id_type,
        time_column=time_column,
        partition_column=partition_column,
        partition_by=Partitioner(partition_by) if partition_by else None,
        before=before.replace(tzinfo=UTC) if before else None,
    )
    with errors_reported(), StopSignals() as signals:
        target = resolve_target(**common)
        spec = target.stream.spec
        topics = [] if spec.repartition is not None else [spec.worker_input]
        with (
            target.spark("bootstrap", topics, signals, report, table=past.table) as spark,
            stages_reported(spark, "bootstrap", report),
        ):
            work = partial(
                bootstrap,
                spark,
                target.stream,
                past,
                output.absolute(),
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
                spark_kafka_options=target.connection.source_options,
            )
            progress = f"before all ids were written; remove {output} and start again"
            done = interruptible(work, spark, signals, progress)
    report.result(
        f"{done.ids:,} ids of {done.records:,} records in {output}; "
        f"without an id: {done.without_id:,}, older than the window or not before --before: {done.out_of_time:,}",
        ids=done.ids,
        records=done.records,
        without_id=done.without_id,
        out_of_time=done.out_of_time,
    )
    if done.scattered and spec.repartition is None:
        report.warn(f"{done.scattered:,} {_SCATTERED}")


main.add_command(land_command)
main.add_command(audit_command)
main.add_command(package_command)
add_help_and_version(main)
