"""`kubectl dedupe reconcile`: compare stores with the output topic."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.table import Table

from dedupe_crds.annotations import RECONCILE, ReconcileRequest
from dedupe_crds.formatting import count, ranges
from dedupe_crds.status.stream import Comparison
from dedupe_kubectl.api import Api
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.objects import Stream, read_stream
from dedupe_kubectl.options import (
    PARTITIONS,
    STREAM,
    TIMEOUT,
    WAIT,
    current_clock,
    on_cluster,
    terminal,
)
from dedupe_kubectl.stream_view import StreamView, fetch_view
from dedupe_kubectl.table_rows import reconcile_progress
from dedupe_kubectl.tables import print_table, table
from dedupe_kubectl.waiting import Clock, print_line, wait_until_done, warn_if_paused


@click.command("reconcile")
@STREAM
@on_cluster
@PARTITIONS
@click.option("--full", is_flag=True, help="Full reconcile: compare the whole stores, both ways.")
@TIMEOUT
@WAIT
def reconcile_command(
    *,
    api: Api,
    namespace: str,
    stream: str,
    partitions: tuple[int, ...],
    full: bool,
    timeout: int,
    wait: bool,
) -> None:
    """Compare the stores of a stream with its output topic.

    Without --full a worker only catches up, as at each start: it reads the output records after the position of its
    store. With --full the whole store is compared with all records of the output topic: missing ids are added, and
    ids that no output record has are removed. A partition passes no messages meanwhile.
    """
    reconcile(
        api,
        namespace,
        stream,
        partitions=partitions,
        full=full,
        timeout_seconds=timeout if wait else None,
        console=terminal(),
        clock=current_clock(),
        now=datetime.now(UTC),
    )


def reconcile(
    api: Api,
    namespace: str,
    stream: str,
    *,
    partitions: Sequence[int],
    full: bool,
    timeout_seconds: float | None,
    console: Console,
    clock: Clock,
    now: datetime,
) -> None:
    """Request a reconcile; with a timeout, wait for it and print the counts.

    Raises:
        PluginError: the user may not change the stream, there is no such partition, a store could not be
            reconciled, or the time ran out.
    """
    found = read_stream(api.stream(namespace, stream))
    found.require(partitions)
    if found.suspended:
        raise PluginError(
            f"{found.title} is suspended and has no workers: `kubectl dedupe resume {stream}` first; "
            "each worker catches up at its start"
        )
    request = ReconcileRequest(
        request=now.isoformat(timespec="milliseconds"),
        partitions=sorted(set(partitions)),
        full=full,
    )
    annotations = {RECONCILE: request.model_dump_json(by_alias=True)}
    api.patch_stream(namespace, stream, {"metadata": {"annotations": annotations}})
    which = f"partition {ranges(request.partitions)}" if request.partitions else "all partitions"
    print_line(console, f"{found.title}: {'full ' * full}reconcile of {which} requested")
    warn_if_paused(found, console)
    if timeout_seconds is None:
        return
    wait_until_done(
        console,
        lambda: progress(fetch_view(api, namespace, stream), request),
        timeout_seconds,
        clock,
    )
    answers = answers_to(request, read_stream(api.stream(namespace, stream)))
    print_table(console, counts_table(answers))
    if failed := {number: answer.error for number, answer in answers.items() if answer.error}:
        raise PluginError(
            "; ".join(
                f"partition {number} was not reconciled: {why}" for number, why in failed.items()
            )
        )


def wanted_by(request: ReconcileRequest, stream: Stream) -> list[int]:
    """Return the partitions of a request."""
    return request.partitions or [each.partition for each in stream.status.partitions]


def answers_to(request: ReconcileRequest, stream: Stream) -> dict[int, Comparison]:
    """Return the results of the partitions that have completed a request."""
    statuses = map(stream.partition, wanted_by(request, stream))
    answers = {each.partition: each.comparison for each in statuses if each and each.comparison}
    return {
        number: answer
        for number, answer in answers.items()
        if answer.request == request.request and answer.done
    }


def progress(view: StreamView, request: ReconcileRequest) -> str:
    """Describe the partitions that are not reconciled, and the records left to read."""
    wanted, done = wanted_by(request, view.stream), answers_to(request, view.stream)
    left = [number for number in wanted if number not in done]
    if not wanted:
        return "the stream's status lists no partitions yet"
    if not left:
        return ""
    parts = [f"{len(done)} of {len(wanted)} reconciled, waiting for {ranges(left)}"]
    parts += [
        f"partition {number}: {what}" for number in left if (what := _remaining(view, number))
    ]
    return "; ".join(parts)


def counts_table(answers: Mapping[int, Comparison]) -> Table:
    """Build the table of the differences in each partition."""
    rows = [
        {
            "PARTITION": str(number),
            "RECORDS": count(answer.records),
            "ADDED": count(answer.added),
            "REMOVED": count(answer.removed),
            "AGED OUT": count(answer.aged_out),
            "UNVERIFIABLE": count(answer.unverifiable),
            "NOTE": answer.error or "",
        }
        for number, answer in sorted(answers.items())
    ]
    sums = {
        "RECORDS": sum(answer.records for answer in answers.values()),
        "ADDED": sum(answer.added for answer in answers.values()),
        "REMOVED": sum(answer.removed for answer in answers.values()),
        "AGED OUT": sum(answer.aged_out for answer in answers.values()),
        "UNVERIFIABLE": sum(answer.unverifiable for answer in answers.values()),
    }
    total = {"PARTITION": "total", **{head: count(number) for head, number in sums.items()}}
    return table(rows, total=total if len(rows) > 1 else None)


def _remaining(view: StreamView, partition: int) -> str:
    """Describe the records that a partition still has to read.

    The number is from its worker, or else from the stream's status.
    """
    worker, status = view.workers.get(partition), view.stream.partition(partition)
    if worker and not worker.ready and worker.reconcile and worker.reconcile.remaining:
        return reconcile_progress(worker.reconcile.remaining, None)
    return reconcile_progress(status.reconciling, None) if status and status.reconciling else ""
