"""`kubectl dedupe lookup` and `forget`: calls to the workers of all partitions.

The plugin does not know which partition has an id.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Final

import click
from rich.console import Console
from rich.markup import escape

from dedupe_crds.formatting import UNKNOWN, ranges
from dedupe_crds.spec.topics import IdFrom
from dedupe_crds.status.worker import IdOwner, IdStatus
from dedupe_kubectl.api import PARALLEL_CALLS, Api
from dedupe_kubectl.errors import PluginError, WorkerRefused
from dedupe_kubectl.objects import Object, by_partition, is_ready, read_stream
from dedupe_kubectl.options import OUTPUT, STREAM, on_cluster, terminal
from dedupe_kubectl.tables import as_json, print_table, table

MOST_IDS: Final = 1000
"""The limit of a worker for one call."""
_IDS: Final = click.argument("ids", nargs=-1, required=True, metavar="ID...")


@click.command("lookup")
@STREAM
@_IDS
@on_cluster
@OUTPUT
def lookup_command(
    *, api: Api, namespace: str, stream: str, ids: tuple[str, ...], output: str | None
) -> None:
    """Show what a stream knows about ids.

    For each id: whether it is known, in which partition, the record (partition:offset of the input) it was first
    seen in, since when, and the generation of the store that has it. The exit code is 0 if all are known, else 1.
    """
    found = lookup(api, namespace, stream, ids)
    show(found, terminal(), json=output == "json")
    if not all(each.known for each in found):
        raise click.exceptions.Exit(1)


@click.command("forget")
@STREAM
@_IDS
@on_cluster
def forget_command(*, api: Api, namespace: str, stream: str, ids: tuple[str, ...]) -> None:
    """Remove ids from a stream, so that the next message with each passes.

    A rebuild of the store from the output topic, a full reconcile, or the restore of an older snapshot adds them again.
    """
    forgotten, note = forget(api, namespace, stream, ids)
    print_forgotten(stream, ids, forgotten, note, terminal())


class Found(IdStatus):
    """The status of an id in one partition; without `partition` no partition knows it."""

    partition: int | None = None


def lookup(api: Api, namespace: str, stream: str, ids: Sequence[str]) -> list[Found]:
    """Look up ids in all partitions.

    Returns a result for each id and each partition that knows it, in the order of the ids.

    Raises:
        PluginError: the stream has no such lookup, the user has not the rights, or a worker refused or did not
            answer.
    """
    answers = _call_all(api, namespace, stream, "lookup", ids)
    found = []
    for index, id_ in enumerate(ids):
        statuses = {partition: answer["ids"][index] for partition, answer in answers.items()}
        knowing = [
            Found.model_validate({**status, "partition": partition})
            for partition, status in statuses.items()
            if status["known"]
        ]
        found += knowing or [Found(id=id_, known=False)]
    return found


def forget(api: Api, namespace: str, stream: str, ids: Sequence[str]) -> tuple[int, str]:
    """Remove ids from all partitions; return how many were known, and a note.

    The note says what remembers them again. Workers of an earlier release have none. Raises what `lookup` does.
    """
    answers = _call_all(api, namespace, stream, "forget", ids)
    notes = [str(answer["note"]) for answer in answers.values() if answer.get("note")]
    return sum(int(answer["forgotten"]) for answer in answers.values()), next(iter(notes), "")


def show(found: Sequence[Found], console: Console, *, json: bool) -> None:
    """Print the results of a lookup."""
    if json:
        items = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in found]
        console.out(as_json({"items": items}), highlight=False)
        return
    print_table(console, table([_line(each) for each in found]))


def print_forgotten(
    stream: str, ids: Sequence[str], forgotten: int, note: str, console: Console
) -> None:
    """Print how many ids were removed, and the note, if any was."""
    rest = "; the others were not known" if forgotten < len(set(ids)) else ""
    console.print(
        escape(f"{stream}: {forgotten} of {len(set(ids))} ids forgotten{rest}"), soft_wrap=True
    )
    if forgotten and note:
        console.print(escape(f"note: {note}"), soft_wrap=True)


def _place(owner: IdOwner) -> str:
    """Write where an id was first seen; behind routers with the topic."""
    topic = f"{owner.topic}:" if owner.topic else ""
    return f"{topic}{owner.partition}:{owner.offset}"


def _line(found: Found) -> dict[str, str]:
    owner = _place(found.owner) if found.owner else "unknown"
    return {
        "ID": found.id,
        "KNOWN": "yes" if found.known else "no",
        "PARTITION": str(found.partition) if found.known else UNKNOWN,
        "FIRST SEEN IN": owner if found.known else UNKNOWN,
        "SINCE": _since(found),
        "GENERATION": found.generation or UNKNOWN,
        "NOTE": "",
    }


def _since(found: Found) -> str:
    if found.timestamp:
        return _second(found.timestamp)
    if found.seen_after and found.seen_before:
        return f"{_second(found.seen_after)} to {_second(found.seen_before)}"
    return UNKNOWN


def _second(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def _call_all(
    api: Api, namespace: str, stream: str, call: str, ids: Sequence[str]
) -> dict[int, Object]:
    """Call the workers of all partitions; return their answers."""
    if len(ids) > MOST_IDS:
        raise PluginError(f"{len(ids)} ids are too many at once: give at most {MOST_IDS}")
    document = api.stream(namespace, stream)
    found = read_stream(document)
    if document["spec"]["id"]["from"] == IdFrom.CONTENT:
        raise PluginError(
            f"{found.title} has spec.id.from: Content: ids are hashes of whole messages and cannot be looked up"
        )
    if found.suspended:
        raise PluginError(
            f"{found.title} is suspended and has no workers: `kubectl dedupe resume {stream}` first"
        )
    partitions = [each.partition for each in found.status.partitions]
    pods = by_partition(api.pods(namespace, stream))
    ready = {p: pods[p]["metadata"]["name"] for p in partitions if p in pods and is_ready(pods[p])}
    if not partitions or len(ready) < len(partitions):
        missing = ranges(sorted(set(partitions) - ready.keys())) or "any"
        raise PluginError(
            f"{found.title} has no ready worker for partition {missing}, so no worker was called; see "
            f"`kubectl dedupe describe-problem {stream}`"
        )
    token = api.admin_token(namespace, stream)

    def call_worker(pod: str) -> Object | WorkerRefused | None:
        try:
            return api.call_worker(namespace, pod, call, {"ids": list(ids)}, token)
        except WorkerRefused as error:
            return error  # the error names the result of the others too

    with ThreadPoolExecutor(PARALLEL_CALLS) as pool:
        results = dict(zip(ready, pool.map(call_worker, ready.values()), strict=True))
    return _require_all(found.title, call, results)


def _require_all(
    title: str, call: str, results: Mapping[int, Object | WorkerRefused | None]
) -> dict[int, Object]:
    """Return the answers if every worker gave one, else fail."""
    answers = {p: answer for p, answer in results.items() if isinstance(answer, dict)}
    if len(answers) == len(results):
        return answers
    wrong: dict[str, list[int]] = {}
    for partition in sorted(results.keys() - answers.keys()):
        refused = results[partition]
        why = "did not answer" if refused is None else f"refused: {refused}"
        wrong.setdefault(why, []).append(partition)
    failures = "; ".join(
        f"the worker of partition {ranges(each)} {why}" for why, each in wrong.items()
    )
    others = "; the others succeeded" if answers else ""
    raise PluginError(
        f"{title}: {call}: {failures}{others}. Repeat the command when that is fixed: it is idempotent"
    )
