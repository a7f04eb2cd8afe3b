"""The command `dedupe-pipeline audit`."""

import sys
from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Unpack

import click
from rich.console import Console

from dedupe_crds.command_line import DurationType
from dedupe_crds.exit_status import ExitStatus
from dedupe_crds.stop_signals import StopSignals
from dedupe_ids.column_ids import IdType
from dedupe_pipeline.cli_options import (
    DIRECTORY,
    FILE,
    Common,
    audit_bounds,
    check_writable,
    common_options,
    errors_reported,
    id_type_option,
    resolve_target,
)
from dedupe_pipeline.cli_table import landed_table, warehouse_option
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.interruptible import interruptible
from dedupe_pipeline.jobs.audit import Outcome, audit
from dedupe_pipeline.jobs.audit.bounds import Bounds
from dedupe_pipeline.jobs.audit.incremental import check_supported
from dedupe_pipeline.jobs.audit.memory import Memory
from dedupe_pipeline.jobs.audit.report import html_page, print_result
from dedupe_pipeline.jobs.audit.result import AuditResult
from dedupe_pipeline.jobs.audit.told_ids import ToldIds
from dedupe_pipeline.progress.stages import stages_reported
from dedupe_pipeline.report.report import Report, report_options

_STATUS = {
    Outcome.CLEAN: ExitStatus.OK,
    Outcome.DEFECTS: ExitStatus.DEFECTS,
    Outcome.NOTHING_JUDGED: ExitStatus.NOTHING_JUDGED,
}


@click.command("audit")
@common_options
@report_options
@click.option("--html", type=FILE, help="Write an HTML report with plots to this file.")
@click.option("--json", "json_file", type=FILE, help="Write the full result as JSON to this file.")
@click.option(
    "--up-to-committed",
    is_flag=True,
    help="Check only the records that the stream has committed; use it while the stream runs. With spec.repartition "
    "it waits until the workers have caught up with the routers.",
)
@click.option(
    "--namespace",
    help="Namespace of the stream, if its manifest names none and it was created with kubectl apply -n.",
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S"]),
    help="Judge only what came since this time, in UTC, by the timestamps of the records.",
)
@click.option(
    "--last",
    type=DurationType(positive=True),
    help="Judge only what came in this time, such as 24h.",
)
@click.option(
    "--offsets",
    metavar="PARTITION:FROM-TO",
    multiple=True,
    help="Judge only these offsets of the input, such as 3:100-200, 3:100- or orders/3:100- (repeatable).",
)
@click.option(
    "--known",
    metavar="SOURCE",
    help="Ids delivered before the stream began, as given to bootstrap: topic:NAME, or a path of Parquet or CSV files.",
)
@click.option("--known-id-column", default="id", show_default=True)
@id_type_option("--known-id-type")
@click.option(
    "--landed",
    metavar="TABLE",
    help="Read the output from the table in which it has landed: iceberg:CATALOG.SCHEMA.TABLE, or delta: and its name, "
    "path or URL. What has not landed yet is read from the topic.",
)
@warehouse_option
@click.option(
    "--forgotten",
    type=FILE,
    help="File of the ids given to `kubectl dedupe forget`, a line for each time.",
)
@click.option(
    "--remember",
    type=DIRECTORY,
    help="Directory of what earlier audits have judged: read and judge only what came since.",
)
def audit_command(
    *,
    html: Path | None,
    json_file: Path | None,
    up_to_committed: bool,
    namespace: str | None,
    since: datetime | None,
    last: timedelta | None,
    offsets: tuple[str, ...],
    known: str | None,
    known_id_column: str,
    known_id_type: IdType | None,
    landed: str | None,
    warehouse: str | None,
    forgotten: Path | None,
    report: Report,
    remember: Path | None,
    **common: Unpack[Common],
) -> None:
    """Compare the output with the input topics; exit with code 1 for any defect.

    Each id is expected once in all partitions together. The exit code is 4 if there was no record to judge.
    """
    with errors_reported(), StopSignals() as signals:
        check_writable(html, json_file)
        if html:
            _check_drawable()
        table = landed_table(landed, warehouse)
        bounds = audit_bounds(since, last, offsets)
        target = resolve_target(namespace, **common)
        stream = target.stream
        topics = [*stream.spec.input.names, stream.spec.output.topic]
        if remember:
            check_supported(stream, is_bounded=bounds != Bounds(), is_landed=table is not None)
        with (
            Memory.opened(remember) if remember else nullcontext() as memory,
            target.spark("audit", topics, signals, report, table=table) as spark,
            stages_reported(spark, "audit", report),
        ):
            work = partial(
                audit,
                spark,
                stream,
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
                spark_kafka_options=target.connection.source_options,
                up_to_committed=up_to_committed,
                bounds=bounds,
                told=_told_ids(known, known_id_column, known_id_type, forgotten),
                landed=table,
                memory=memory,
            )
            progress = "before the audit was done: nothing was judged"
            result = interruptible(work, spark, signals, progress)
            _write(result, html, json_file, report)
            # Not before the defects are reported: the next audit reports only new ones.
            if memory:
                memory.publish()
    sys.exit(_STATUS[result.outcome])


def _check_drawable() -> None:
    """Refuse a page whose plots could not be drawn after the work is done."""
    try:
        import_module("dedupe_pipeline.jobs.audit.plots")
    except ImportError as error:
        hint = "install this project with its extra 'pipeline'"
        raise RequestRefused(f"--html: {error}; {hint}") from error


def _told_ids(
    known: str | None, column: str, id_type: IdType | None, forgotten: Path | None
) -> ToldIds:
    return ToldIds(known=known, id_column=column, id_type=id_type, forgotten=forgotten)


def _write(result: AuditResult, html: Path | None, json_file: Path | None, report: Report) -> None:
    total = result.total
    report.done(outcome=result.outcome, judged=total.judged_records, defects=total.defects)
    print_result(result, Console())
    if html:
        html.write_text(html_page(result), encoding="utf-8")
    if json_file:
        json_file.write_text(result.to_json() + "\n", encoding="utf-8")
