"""`kubectl dedupe reconcile`: stores are compared with the output topic, and what was found is counted."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.console import Console
from rich.table import Table

from dedupe_crds.annotations import RECONCILE, ReconcileRequest
from dedupe_crds.formatting import ranges
from dedupe_crds.status.stream import Comparison
from dedupe_kubectl.api import Api
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.objects import Stream, read_stream
from dedupe_kubectl.stream_view import Look, look_at
from dedupe_kubectl.tables import print_table, table
from dedupe_kubectl.waiting import say, tell_if_paused, wait
from dedupe_kubectl.words import count


def reconcile(
    api: Api,
    namespace: str,
    stream: str,
    *,
    partitions: Sequence[int],
    full: bool,
    timeout_seconds: float | None,
    console: Console,
    now: datetime,
) -> None:
    """Have stores reconciled; with a timeout, wait until all are and show the counts.

    Raises:
        PluginError: it is not allowed, there is no such partition, a store could not be reconciled, or it
            took too long.
    """
    found = read_stream(api.stream(namespace, stream))
    found.require(partitions)
    if found.suspended:
        raise PluginError(
            f"{found.title} is suspended and has no workers: `kubectl dedupe resume {stream}` first; "
            "each reconciles as it starts"
        )
    request = ReconcileRequest(
        request=now.isoformat(timespec="milliseconds"),
        partitions=sorted(set(partitions)),
        full=full,
    )
    annotations = {RECONCILE: request.model_dump_json(by_alias=True)}
    api.patch_stream(namespace, stream, {"metadata": {"annotations": annotations}})
    which = f"partition {ranges(request.partitions)}" if request.partitions else "all partitions"
    say(console, f"{found.title}: {'full ' * full}reconcile of {which} asked for")
    tell_if_paused(found, console)
    if timeout_seconds is None:
        return
    wait(console, lambda: progress(look_at(api, namespace, stream), request), timeout_seconds)
    answers = answers_to(request, read_stream(api.stream(namespace, stream)))
    print_table(console, counts_table(answers))
    if failed := {number: one.error for number, one in answers.items() if one.error}:
        raise PluginError(
            "; ".join(
                f"partition {number} was not reconciled: {why}" for number, why in failed.items()
            )
        )


def wanted_by(request: ReconcileRequest, stream: Stream) -> list[int]:
    """The partitions a request is about."""
    return request.partitions or [one.partition for one in stream.status.partitions]


def answers_to(request: ReconcileRequest, stream: Stream) -> dict[int, Comparison]:
    """What the partitions that have answered a request found."""
    told = ((number, stream.partition(number)) for number in wanted_by(request, stream))
    comparisons = ((number, one.comparison) for number, one in told if one)
    return {n: one for n, one in comparisons if one and one.request == request.request and one.done}


def progress(look: Look, request: ReconcileRequest) -> str:
    """What is still missing of a reconcile: its partitions, and what those at work have to read."""
    wanted, done = wanted_by(request, look.stream), answers_to(request, look.stream)
    left = [number for number in wanted if number not in done]
    if not wanted:
        return "the operator has told of no partitions yet"
    if not left:
        return ""
    told = [f"{len(done)} of {len(wanted)} reconciled, {ranges(left)} to come"]
    told += [f"partition {number}: {what}" for number in left if (what := _remaining(look, number))]
    return "; ".join(told)


def counts_table(answers: Mapping[int, Comparison]) -> Table:
    """Build the table of what was found in each partition."""
    rows = [
        {
            "PARTITION": str(number),
            "RECORDS": count(one.records),
            "ADDED": count(one.added),
            "REMOVED": count(one.removed),
            "AGED OUT": count(one.aged_out),
            "UNVERIFIABLE": count(one.unverifiable),
            "NOTE": one.error or "",
        }
        for number, one in sorted(answers.items())
    ]
    sums = {
        "RECORDS": sum(one.records for one in answers.values()),
        "ADDED": sum(one.added for one in answers.values()),
        "REMOVED": sum(one.removed for one in answers.values()),
        "AGED OUT": sum(one.aged_out for one in answers.values()),
        "UNVERIFIABLE": sum(one.unverifiable for one in answers.values()),
    }
    total = {"PARTITION": "total", **{head: count(number) for head, number in sums.items()}}
    return table(rows, total=total if len(rows) > 1 else None)


def _remaining(look: Look, partition: int) -> str:
    """What a partition has still to read: as its worker says, or else the operator."""
    worker, told = look.workers.get(partition), look.stream.partition(partition)
    if worker and not worker.ready and worker.reconcile and worker.reconcile.remaining:
        return f"{worker.reconcile.remaining:,} records to come"
    return f"{told.reconciling:,} records to come" if told and told.reconciling else ""
