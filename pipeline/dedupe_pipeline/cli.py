"""The command `dedupe-pipeline JOB MANIFEST`: Spark jobs on a stream's topics.

Exit codes: 0 success (for an audit: no defects), 1 an audit found defects, 2 the job could not run.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

import click
from rich.console import Console

from dedupe_kafka.client import read_properties
from dedupe_kafka.partitioners import Partitioner
from dedupe_pipeline.cli_options import (
    DIRECTORY,
    FILE,
    Common,
    common_options,
    errors_reported,
    parse_every,
    resolve_target,
    stop_on_signals,
)
from dedupe_pipeline.jobs.aggregate import Postgres, aggregate, load_job
from dedupe_pipeline.jobs.audit import audit
from dedupe_pipeline.jobs.audit.report import html_page, print_result
from dedupe_pipeline.jobs.bootstrap.job import PastIds, bootstrap
from dedupe_pipeline.jobs.land.job import land
from dedupe_pipeline.package import EXECUTOR_PACKAGES, build


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Spark jobs over the topics of a DedupeStream."""


@main.command("land")
@common_options
@click.option(
    "--output",
    type=DIRECTORY,
    required=True,
    help="Directory for the Parquet files, in date=…/ subdirectories.",
)
@click.option(
    "--checkpoint",
    type=DIRECTORY,
    help="Directory for the progress of the job; on the same file system. [OUTPUT.checkpoint]",
)
@click.option(
    "--every",
    metavar="DURATION",
    help="Keep running and land new records at this interval, such as 30s.",
)
@click.option(
    "--max-offsets-per-trigger", type=click.IntRange(min=1), default=500_000, show_default=True
)
@click.option(
    "--json-schema", metavar="DDL", help='Land the parsed value as well: "id STRING, n INT".'
)
def land_command(
    *,
    output: Path,
    checkpoint: Path | None,
    every: str | None,
    max_offsets_per_trigger: int,
    json_schema: str | None,
    **common: Unpack[Common],
) -> None:
    """Land the output topic as Parquet by date, each record exactly once."""
    stop = stop_on_signals()
    with errors_reported():
        target = resolve_target(**common)
        with target.spark("land", [target.stream.spec.output.topic]) as spark:
            landed = land(
                spark,
                target.stream,
                output.absolute(),
                checkpoint=checkpoint and checkpoint.absolute(),
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
                every=parse_every(every),
                max_offsets_per_trigger=max_offsets_per_trigger,
                json_schema=json_schema,
                stop=stop,
            )
    click.echo(f"landed {landed.records:,} records in {landed.batches} batches in {output}")


@main.command("aggregate")
@common_options
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
    metavar="DURATION",
    help="Keep running and count new records at this interval, such as 30s.",
)
@click.option(
    "--max-offsets-per-trigger", type=click.IntRange(min=1), default=500_000, show_default=True
)
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
    every: str | None,
    max_offsets_per_trigger: int,
    skip_deleted: bool,
    **common: Unpack[Common],
) -> None:
    """Count and sum the output topic in windows, into a PostgreSQL table.

    The file JOB defines windows, keys and measures. Each record is counted exactly once, also after crashes and
    retries. Passwords come from PGPASSFILE, a service file, PGPASSWORD or --postgres-properties.
    """
    stop = stop_on_signals()
    with errors_reported():
        target = resolve_target(**common)
        job = load_job(job_file)
        properties = read_properties(postgres_properties, reserved=frozenset())
        postgres = Postgres.of(postgres_url, properties)
        with target.spark("aggregate", [target.stream.spec.output.topic]) as spark:
            added = aggregate(
                spark,
                target.stream,
                job,
                postgres,
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
                every=parse_every(every),
                max_offsets_per_trigger=max_offsets_per_trigger,
                skip_deleted=skip_deleted,
                stop=stop,
            )
    click.echo(
        f"added {added.records:,} records in {added.batches} batches to {job.table}; "
        f"late: {added.late:,}, filtered out: {added.filtered:,}, unusable: {added.unusable:,}"
    )


@main.command("audit")
@common_options
@click.option("--html", type=FILE, help="Write an HTML report with plots to this file.")
@click.option("--json", "json_file", type=FILE, help="Write the full result as JSON to this file.")
@click.option(
    "--up-to-committed",
    is_flag=True,
    help="Check only the records that the stream has committed; use it while the stream runs. With spec.repartition "
    "it waits until the workers have caught up with the routers.",
)
def audit_command(
    *, html: Path | None, json_file: Path | None, up_to_committed: bool, **common: Unpack[Common]
) -> None:
    """Compare the output with the input topics; exit with code 1 for any defect.

    Each id is expected once in all partitions together.
    """
    with errors_reported():
        target = resolve_target(**common)
        spec = target.stream.spec
        with target.spark("audit", [*spec.input.names, spec.output.topic]) as spark:
            result = audit(
                spark,
                target.stream,
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
                up_to_committed=up_to_committed,
            )
        print_result(result, Console())
        if html:
            html.write_text(html_page(result), encoding="utf-8")
        if json_file:
            json_file.write_text(result.to_json() + "\n", encoding="utf-8")
    sys.exit(0 if result.is_clean else 1)


@main.command("bootstrap")
@common_options
@click.option(
    "--from",
    "source",
    required=True,
    metavar="SOURCE",
    help="topic:NAME, or a path of Parquet or CSV files.",
)
@click.option(
    "--output", type=DIRECTORY, required=True, help="Directory for the files; it must not exist."
)
@click.option("--id-column", default="id", show_default=True)
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
    output: Path,
    id_column: str,
    time_column: str,
    partition_column: str,
    partition_by: str | None,
    before: datetime | None,
    **common: Unpack[Common],
) -> None:
    """Write ids delivered in the past to files for `dedupe bootstrap`.

    That command loads them into the stores of a new stream.
    """
    past = PastIds(
        source=source,
        id_column=id_column,
        time_column=time_column,
        partition_column=partition_column,
        partition_by=Partitioner(partition_by) if partition_by else None,
        before=before.replace(tzinfo=UTC) if before else None,
    )
    with errors_reported():
        target = resolve_target(**common)
        spec = target.stream.spec
        topics = [] if spec.repartition is not None else [spec.worker_input]
        with target.spark("bootstrap", topics) as spark:
            done = bootstrap(
                spark,
                target.stream,
                past,
                output.absolute(),
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
            )
    click.echo(
        f"{done.ids:,} ids of {done.records:,} records in {output}; "
        f"without an id: {done.without_id:,}, older than the window or not before --before: {done.out_of_time:,}"
    )
    if done.scattered and spec.repartition is None:
        click.echo(
            f"warning: {done.scattered:,} ids are in several partitions, so copies of an id do not meet in one worker, "
            "and pass. Create the stream with spec.repartition, or let producers send equal ids to one partition.",
            err=True,
        )


@main.command("package")
@click.option(
    "--output", type=FILE, required=True, help="The archive to write, such as dedupestream.zip."
)
def package_command(*, output: Path) -> None:
    """Build the archive that Spark's executors need, for --py-files.

    On a cluster, executors import this project's packages from it.
    """
    with errors_reported():
        build(output)
    click.echo(
        f"{output}: pass it to spark-submit as --py-files, or as --conf spark.submit.pyFiles={output}"
    )
    click.echo(f"The executors' Python needs {', '.join(EXECUTOR_PACKAGES)}")
