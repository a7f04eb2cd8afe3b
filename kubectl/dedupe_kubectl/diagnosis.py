"""Find what is wrong with a stream, why, and what to do.

`describe-problem` calls it. Only the operator diagnoses pods and volumes: its findings are in the stream's status.
The workers' own status, which is newer, and events are added here. Invariant: pure functions, without I/O.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.annotations import PAUSE
from dedupe_crds.formatting import ranges
from dedupe_crds.status.stream import Condition
from dedupe_kubectl import warning_events
from dedupe_kubectl.advice import PARTITION_ADVICE, STREAM_ADVICE
from dedupe_kubectl.errors import INSTALL
from dedupe_kubectl.growth_lines import why_held_up
from dedupe_kubectl.objects import Object, Stream, is_ready
from dedupe_kubectl.stream_view import StreamView

_PATIENCE: Final = timedelta(minutes=1)
_DELETION_PATIENCE: Final = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem. `do` is empty if `why` already says what to do."""

    what: str
    why: str
    do: str = ""
    events: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Input of the diagnosis.

    `operators` are the operator's pods, None if the user may not list them.
    """

    view: StreamView
    now: datetime
    events: Sequence[Object] = ()
    operators: Sequence[Object] | None = None


@dataclass(frozen=True, kw_only=True)
class _Finding:
    """A problem of one partition."""

    partition: int
    what: str
    reason: str
    message: str

    @property
    def why(self) -> str:
        return f"{self.reason}: {self.message}" if self.reason else self.message


def find(facts: Facts) -> list[Problem]:
    """Return all problems, the most severe first."""
    findings = [
        finding
        for partition in facts.view.partitions
        if (finding := _of_partition(facts.view, partition))
    ]
    found = [
        *_of_operator(facts),
        *_of_pause(facts.view.stream),
        *_of_deletion(facts),
        *_of_conditions(facts.view.stream, findings),
        *_of_growth(facts.view.stream),
        *_of_routers(facts),
        *_grouped(facts, findings),
    ]
    ready = facts.view.stream.condition("Ready", "False")
    if found or ready is None or facts.view.stream.suspended:
        return found
    waiting = [each.partition for each in facts.view.stream.status.partitions if not each.ready]
    events = _events(facts, waiting) if waiting else _router_events(facts)
    return [_of_condition("The stream is not ready", ready, events)]


def _of_operator(facts: Facts) -> list[Problem]:
    """Return the problem of an operator that does not act.

    No other finding is up to date then.
    """
    stream = facts.view.stream
    if stream.paused or stream.deleting or facts.now - stream.changed < _PATIENCE:
        return []
    if not stream.status.conditions:
        what = "has not processed this stream"
    elif not stream.observed:
        what = "has not processed the newest change"
    elif _is_outdated(facts):
        what = "does not run, and the stream's status is outdated"
    else:
        return []
    why, do = _why_no_operator(facts.operators)
    return [Problem(what=f"The operator {what}", why=why, do=do)]


def _is_outdated(facts: Facts) -> bool:
    """Return whether no operator runs and a pod is less ready than its status."""
    if facts.operators is None or any(is_ready(pod) for pod in facts.operators):
        return False
    statuses = (facts.view.stream.partition(partition) for partition in facts.view.pods)
    pods = zip(statuses, facts.view.pods.values(), strict=True)
    return any(status is not None and status.ready and not is_ready(pod) for status, pod in pods)


def _why_no_operator(operators: Sequence[Object] | None) -> tuple[str, str]:
    if operators is None:
        return (
            "it may be down, or may not watch this namespace; you have no rights to list its pods",
            "ask an administrator for: kubectl get pods -A -l app.kubernetes.io/component=operator",
        )
    if not operators:
        return "no operator runs in this cluster", f"install its chart: {INSTALL}"
    namespace, name = (operators[0]["metadata"][key] for key in ("namespace", "name"))
    log = f"the operator's log: kubectl logs -n {namespace} {name}"
    if not any(is_ready(pod) for pod in operators):
        return f"its pod {namespace}/{name} is not ready", f"see {log}"
    return (
        "it runs, but may not watch this namespace, or cannot reach the API server",
        f"see watch.namespaces of its chart, and {log}",
    )


def _of_pause(stream: Stream) -> list[Problem]:
    if not stream.paused:
        return []
    return [
        Problem(
            what="Reconciliation of this stream is paused",
            why=f"the annotation {PAUSE} is true, so nothing is repaired or rolled out",
            do=f"kubectl annotate -n {stream.namespace} dedupestream {stream.name} {PAUSE}-",
        )
    ]


def _of_deletion(facts: Facts) -> list[Problem]:
    """Return the problem of a deletion that finalizers block. The operator sets none."""
    stream = facts.view.stream
    if not stream.deleting or not stream.finalizers:
        return []
    if facts.now - stream.deleting <= _DELETION_PATIENCE:
        return []
    held = ", ".join(stream.finalizers)
    return [
        Problem(
            what="The deletion of the stream does not finish",
            why=f"metadata.finalizers block it since {stream.deleting.isoformat()}: {held}",
            do="check the controllers that set them; the operator of dedupestream sets none",
        )
    ]


def _of_conditions(stream: Stream, findings: Sequence[_Finding]) -> list[Problem]:
    """Return the problems of conditions, without messages that a finding has."""
    older = [stream.partition(finding.partition) for finding in findings]
    messages = [*(each.message for each in findings), *(each.message for each in older if each)]
    if (routers := stream.status.routers) and routers.message and routers.ready < routers.replicas:
        messages.append(routers.message)
    problems = []
    for type_, bad, what in (
        ("Degraded", "True", "The stream is degraded"),
        ("WindowHealthy", "False", "Ids are forgotten too soon"),
        ("GuaranteesMet", "False", "Workers run, but not everything is as guaranteed"),
        ("InputPartitionsAdded", "True", "Partitions were added to the input"),
        ("InputPartitioning", "False", "Copies of a message may be in different partitions"),
        ("SnapshotsHealthy", "False", "Snapshots are not healthy"),
    ):
        condition = stream.condition(type_, bad)
        if condition is None:
            continue
        rest = condition.message
        for message in filter(None, messages):
            rest = _sentence(message).sub("", rest)
        if rest == condition.message:
            problems.append(_of_condition(what, condition))
        elif rest := re.sub(r"And \d+ more\.", "", rest).strip():
            problems.append(Problem(what=what, why=rest))
    return problems


def _of_routers(facts: Facts) -> list[Problem]:
    """Return the problem of routers that are not ready, as the operator has found it."""
    stream = facts.view.stream
    routers = stream.status.routers
    is_well = routers is None or routers.ready >= routers.replicas or not routers.reason
    if routers is None or is_well or stream.suspended:
        return []
    return [
        Problem(
            what=f"{routers.ready} of {routers.replicas} routers are ready",
            why=f"{routers.reason}: {routers.message}",
            do=STREAM_ADVICE.get(routers.reason or "", ""),
            events=_router_events(facts),
        )
    ]


def _of_growth(stream: Stream) -> list[Problem]:
    """Return the problem of a growth that is held up, besides what holds it up."""
    if not (why := why_held_up(stream)):
        return []
    growth, what, do = stream.status.growth, "The growth to more partitions", "the growth continues"
    if growth is not None and growth.adds_routers:
        what = "The change to routers"
        do = "the change continues; until it is done the stream passes no message"
    return [Problem(what=f"{what} is held up", why=why, do=f"repair what is named; then {do}")]


def _of_condition(what: str, condition: Condition, events: Sequence[str] = ()) -> Problem:
    return Problem(
        what=what,
        why=f"{condition.reason}: {condition.message}",
        do=STREAM_ADVICE.get(condition.reason, ""),
        events=events,
    )


def _sentence(message: str) -> re.Pattern[str]:
    """Match a message in a condition, with the partitions or routers before it."""
    text = re.escape(message.strip(" .!"))
    return re.compile(
        rf"(?<!\S)((partition|router)s? [0-9, -]+(and \d+ more)?: )?{text}[.!]?(\s+|$)",
        re.IGNORECASE,
    )


def _of_partition(view: StreamView, partition: int) -> _Finding | None:
    """Return the finding about a partition: its worker's own, or else the operator's."""
    stream, worker = view.stream, view.workers.get(partition)
    status = stream.partition(partition)
    if worker and worker.ready:
        if worker.window.healthy or stream.condition("WindowHealthy", "False"):
            return None
        message = (
            "ids younger than spec.store.window.alertBelow were evicted: raise "
            "spec.store.window.maxBytes and spec.storage.size"
        )
        what, reason = "it forgets ids too soon", "TooShort"
    elif worker and worker.reason and worker.message:
        what, reason, message = "its worker waits", worker.reason, worker.message
    elif status and status.message and not status.ready:
        what, message = f"it is not ready ({status.phase.value})", status.message
        degraded = stream.condition("Degraded", "True")
        # A condition of several problems has the reason of the first.
        first = degraded is not None and _sentence(message).match(degraded.message)
        reason = degraded.reason if degraded and first else ""
    else:
        return None
    return _Finding(partition=partition, what=what, reason=reason, message=message)


def _grouped(facts: Facts, findings: Sequence[_Finding]) -> list[Problem]:
    """Return a problem for each finding, with all partitions that have it."""
    groups: dict[_Finding, list[int]] = {}
    for finding in findings:
        groups.setdefault(replace(finding, partition=0), []).append(finding.partition)
    return [
        Problem(
            what=f"Partition{'s' * (len(partitions) > 1)} {ranges(partitions)}: {finding.what}",
            why=finding.why,
            do=PARTITION_ADVICE.get(finding.reason, ""),
            events=_events(facts, partitions),
        )
        for finding, partitions in groups.items()
    ]


def _events(facts: Facts, partitions: Iterable[int]) -> tuple[str, ...]:
    """Return the newest warnings about the partitions' objects, each once."""
    name = facts.view.stream.name
    return warning_events.of_partitions(facts.events, facts.now, name, partitions)


def _router_events(facts: Facts) -> tuple[str, ...]:
    """Return the newest warnings about the routers' objects, each once."""
    return warning_events.of_routers(facts.events, facts.now, facts.view.stream.name)
