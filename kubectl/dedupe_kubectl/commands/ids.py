"""`kubectl dedupe lookup` and `forget`: every worker is asked, for which partition an id is in is not known here."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.markup import escape

from dedupe_crds.formatting import ranges
from dedupe_crds.spec.topics import IdFrom
from dedupe_crds.status.worker import IdStatus
from dedupe_kubectl.api import PARALLEL_CALLS, Api
from dedupe_kubectl.errors import PluginError, WorkerRefused
from dedupe_kubectl.objects import Object, by_partition, is_ready, read_stream
from dedupe_kubectl.tables import as_json, print_table, table

MOST_IDS: Final = 1000
"""As many as a worker takes at once."""


class Found(IdStatus):
    """What one partition knows of an id; without `partition` none knows it."""

    partition: int | None = None


def lookup(api: Api, namespace: str, stream: str, ids: Sequence[str]) -> list[Found]:
    """What is known of ids, in their order; of one that several partitions know, each of them.

    Raises:
        PluginError: the ids can't be asked for, it is not allowed, or a worker refused or did not answer.
    """
    answers = _ask(api, namespace, stream, "lookup", ids)
    found = []
    for at, one in enumerate(ids):
        told = {partition: answer["ids"][at] for partition, answer in answers.items()}
        knowing = [
            Found.model_validate({**status, "partition": partition})
            for partition, status in told.items()
            if status["known"]
        ]
        found += knowing or [Found(id=one, known=False)]
    return found


def forget(api: Api, namespace: str, stream: str, ids: Sequence[str]) -> int:
    """Have ids forgotten; returns how many were remembered, in all partitions together. Raises what `lookup` does."""
    answers = _ask(api, namespace, stream, "forget", ids)
    return sum(int(answer["forgotten"]) for answer in answers.values())


def show(found: Sequence[Found], console: Console, *, json: bool) -> None:
    """Print what a lookup has found."""
    if json:
        items = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found]
        console.out(as_json({"items": items}), highlight=False)
        return
    print_table(console, table([_line(one) for one in found]))


def tell_forgotten(stream: str, ids: Sequence[str], forgotten: int, console: Console) -> None:
    """Print what became of them."""
    rest = "; the others were not known" if forgotten < len(set(ids)) else ""
    console.print(
        escape(f"{stream}: {forgotten} of {len(set(ids))} ids forgotten{rest}"), soft_wrap=True
    )


def _line(one: Found) -> dict[str, str]:
    owner = f"{one.owner.partition}:{one.owner.offset}" if one.owner else "unknown"
    return {
        "ID": one.id,
        "KNOWN": "yes" if one.known else "no",
        "PARTITION": str(one.partition) if one.known else "-",
        "FIRST SEEN IN": owner if one.known else "-",
        "SINCE": _since(one),
        "GENERATION": one.generation or "-",
        "NOTE": "",
    }


def _since(one: Found) -> str:
    if one.timestamp:
        return _second(one.timestamp)
    if one.seen_after and one.seen_before:
        return f"{_second(one.seen_after)} to {_second(one.seen_before)}"
    return "-"


def _second(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def _ask(api: Api, namespace: str, stream: str, call: str, ids: Sequence[str]) -> dict[int, Object]:
    """The answers of all partitions' workers."""
    if len(ids) > MOST_IDS:
        raise PluginError(f"{len(ids)} ids are too many at once: give at most {MOST_IDS}")
    document = api.stream(namespace, stream)
    found = read_stream(document)
    if document["spec"]["id"]["from"] == IdFrom.CONTENT:
        raise PluginError(
            f"{found.title} has spec.id.from: Content: ids are hashes of whole messages, and can't be asked for"
        )
    if found.suspended:
        raise PluginError(
            f"{found.title} is suspended and has no workers: `kubectl dedupe resume {stream}` first"
        )
    partitions = [one.partition for one in found.status.partitions]
    pods = by_partition(api.pods(namespace, stream))
    ready = {p: pods[p]["metadata"]["name"] for p in partitions if p in pods and is_ready(pods[p])}
    if not partitions or len(ready) < len(partitions):
        missing = ranges(sorted(set(partitions) - ready.keys())) or "any"
        raise PluginError(
            f"{found.title} has no worker that is ready for partition {missing}: nothing was asked; see "
            f"`kubectl dedupe describe-problem {stream}`"
        )
    token = api.admin_token(namespace, stream)

    def ask(pod: str) -> Object | WorkerRefused | None:
        try:
            return api.ask_worker(namespace, pod, call, {"ids": list(ids)}, token)
        except WorkerRefused as error:
            return error  # what the others say counts as well

    with ThreadPoolExecutor(PARALLEL_CALLS) as pool:
        told = dict(zip(ready, pool.map(ask, ready.values()), strict=True))
    return _all_told(found.title, call, told)


def _all_told(
    title: str, call: str, told: Mapping[int, Object | WorkerRefused | None]
) -> dict[int, Object]:
    """The answers, if all have given one."""
    answers = {p: answer for p, answer in told.items() if isinstance(answer, dict)}
    if len(answers) == len(told):
        return answers
    wrong: dict[str, list[int]] = {}
    for partition in sorted(told.keys() - answers.keys()):
        refused = told[partition]
        why = "did not answer" if refused is None else f"refused: {refused}"
        wrong.setdefault(why, []).append(partition)
    said = "; ".join(f"the worker of partition {ranges(each)} {why}" for why, each in wrong.items())
    others = "; the others did it" if answers else ""
    raise PluginError(
        f"{title}: {call}: {said}{others}. Ask again once that is mended: doing so twice does no harm"
    )
