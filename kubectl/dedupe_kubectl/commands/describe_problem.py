"""`kubectl dedupe describe-problem`: what is wrong with a stream, why, and what to do.

Pods and volumes are judged by the operator alone: what it found is in the stream's status. Beside it stand
the workers' own words, which are fresher, and events.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.formatting import ranges
from dedupe_crds.status.stream import Condition
from dedupe_kubectl.api import INSTALL, Api
from dedupe_kubectl.errors import Forbidden
from dedupe_kubectl.objects import PAUSE, Object, Stream, is_ready
from dedupe_kubectl.stream_view import Look, look_at

_PATIENCE: Final = timedelta(minutes=1)
_DELETION_PATIENCE: Final = timedelta(minutes=5)
_EVENTS_COUNT_FOR: Final = timedelta(minutes=30)  # twice the longest back-off of a controller
_SHOWN_EVENTS: Final = 3

# By the stable reasons of conditions and workers, where the message beside it does not say what to do, or not
# in terms of the manifest.
_PARTITION_ADVICE: Final = {
    "BrokerUnavailable": "check spec.kafka.bootstrapServers, and that pods can reach the brokers",
    "BucketRefused": "check spec.snapshots.s3: the bucket, and what its credentials allow",
    "BucketUnavailable": "check spec.snapshots.s3.endpoint, and that pods can reach it",
    "DiskFull": "raise spec.storage.size",
    "IdentityRefused": "wait for the partition to get a volume of its own, and find out who swapped volumes",
    "RestoreFailed": "wait for the next source; those left: kubectl dedupe snapshots STREAM",
    "VolumeExpansionFailed": "see the events of the PersistentVolumeClaim",
    "VolumeNotMounted": "mend what the message names",
    "VolumeNotProvisioned": "mend what the message names",
    "WorkerFailed": "see the worker's log: kubectl logs --previous",
    "WorkerNotStarted": "create or correct what the message names, such as a Secret",
}
_STREAM_ADVICE: Final = {
    **_PARTITION_ADVICE,
    "InvalidSchedule": "correct spec.snapshots.schedule, a cron schedule in UTC",
    "LastSnapshotFailed": "mend what the message names, then make one: kubectl dedupe snapshot STREAM",
    "SnapshotOverdue": "see what holds it: kubectl dedupe snapshots STREAM",
    "InvalidManifest": "correct the field that is named, and apply the manifest again",
    "NotAuthorized": "correct client.properties in the Secret of spec.kafka.configSecretRef, or grant the rights",
    "SecretInvalid": "correct the key client.properties of the Secret of spec.kafka.configSecretRef",
    "TopicMissing": "create the input topic, or name another in a new stream",
}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong. `do` is empty where `why` says what to do."""

    what: str
    why: str
    do: str = ""
    events: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What problems are found in. `operators` are their pods, None if the user may not see them."""

    look: Look
    now: datetime
    events: Sequence[Object] = ()
    operators: Sequence[Object] | None = None


@dataclass(frozen=True, kw_only=True)
class _Finding:
    """What is wrong with one partition."""

    partition: int
    what: str
    reason: str
    message: str

    @property
    def why(self) -> str:
        return f"{self.reason}: {self.message}" if self.reason else self.message


def describe(
    api: Api, namespace: str, name: str, now: datetime, say: Callable[[str], None]
) -> bool:
    """Say it line by line; True if something is wrong.

    Raises:
        PluginError: the stream can't be read.
    """
    look = look_at(api, namespace, name)
    untold = list(look.untold)
    events: list[Object] = []
    operators: list[Object] | None = None
    try:
        events = api.warnings(namespace)
    except Forbidden as error:
        untold.append(str(error))
    with suppress(Forbidden):  # said where it matters
        operators = api.operator_pods()
    problems = find(Facts(look=look, now=now, events=events, operators=operators))
    for line in (*lines(look.stream, problems), *(f"Note: {line}" for line in untold)):
        say(line)
    return bool(problems)


def lines(stream: Stream, problems: Sequence[Problem]) -> list[str]:
    """Write it for people."""
    if not problems:
        return [f"{stream.title}: nothing is wrong{_aside(stream)}"]
    number = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    written = [f"{stream.title}: {number}{_aside(stream)}"]
    for place, problem in enumerate(problems, start=1):
        written += ["", f"{place}. {problem.what}", f"   why: {problem.why}"]
        written += [f"   do:  {problem.do}"] if problem.do else []
        written += [f"   event: {line}" for line in problem.events]
    return written


def find(facts: Facts) -> list[Problem]:
    """All that is wrong, the gravest first."""
    findings = [
        finding
        for partition in facts.look.partitions
        if (finding := _of_partition(facts.look, partition))
    ]
    found = [
        *_of_operator(facts),
        *_of_pause(facts.look.stream),
        *_of_deletion(facts),
        *_of_conditions(facts.look.stream, findings),
        *_grouped(facts, findings),
    ]
    ready = facts.look.stream.condition("Ready", "False")
    if found or ready is None or facts.look.stream.suspended:
        return found
    waiting = [one.partition for one in facts.look.stream.status.partitions if not one.ready]
    return [_of_condition("The stream is not ready", ready, _events(facts, waiting))]


def _aside(stream: Stream) -> str:
    if stream.suspended:
        return f"; it is suspended, as spec.suspend says (kubectl dedupe resume {stream.name})"
    progressing = stream.condition("Progressing", "True")
    return (
        f"; {progressing.message}" if progressing and not stream.condition("Ready", "True") else ""
    )


def _of_operator(facts: Facts) -> list[Problem]:
    """The operator does not act: nothing else is up to date then."""
    stream = facts.look.stream
    if stream.paused or stream.deleting or facts.now - stream.changed < _PATIENCE:
        return []
    if not stream.status.conditions:
        what = "has not seen this stream"
    elif not stream.observed:
        what = "has not acted on the newest change"
    elif _is_outdated(facts):
        what = "does not run, and what the stream's status says is outdated"
    else:
        return []
    why, do = _why_no_operator(facts.operators)
    return [Problem(what=f"The operator {what}", why=why, do=do)]


def _is_outdated(facts: Facts) -> bool:
    """Whether pods fail that were ready when the last operator looked, and none looks now."""
    if facts.operators is None or any(is_ready(pod) for pod in facts.operators):
        return False
    told = (facts.look.stream.partition(partition) for partition in facts.look.pods)
    pods = zip(told, facts.look.pods.values(), strict=True)
    return any(one is not None and one.ready and not is_ready(pod) for one, pod in pods)


def _why_no_operator(operators: Sequence[Object] | None) -> tuple[str, str]:
    if operators is None:
        return (
            "it may be down, or not watch this namespace; you may not see its pods",
            "ask who runs it: kubectl get pods -A -l app.kubernetes.io/component=operator",
        )
    if not operators:
        return "no operator runs in this cluster", f"install its chart: {INSTALL}"
    namespace, name = (operators[0]["metadata"][key] for key in ("namespace", "name"))
    log = f"the operator's log: kubectl logs -n {namespace} {name}"
    if not any(is_ready(pod) for pod in operators):
        return f"its pod {namespace}/{name} is not ready", f"see {log}"
    return (
        "it runs, and may not watch this namespace or not reach the API server",
        f"see watch.namespaces of its chart, and {log}",
    )


def _of_pause(stream: Stream) -> list[Problem]:
    if not stream.paused:
        return []
    return [
        Problem(
            what="The operator is kept off this stream",
            why=f"the annotation {PAUSE} is true, so nothing is mended or rolled out",
            do=f"kubectl annotate -n {stream.namespace} dedupestream {stream.name} {PAUSE}-",
        )
    ]


def _of_deletion(facts: Facts) -> list[Problem]:
    """The operator sets no finalizer: others' may keep a deleted stream."""
    stream = facts.look.stream
    if not stream.deleting or not stream.finalizers:
        return []
    if facts.now - stream.deleting <= _DELETION_PATIENCE:
        return []
    held = ", ".join(stream.finalizers)
    return [
        Problem(
            what="The stream is being deleted, and is not gone",
            why=f"metadata.finalizers hold it since {stream.deleting.isoformat()}: {held}",
            do="see that whoever set them runs; the operator of dedupestream sets none",
        )
    ]


def _of_conditions(stream: Stream, findings: Sequence[_Finding]) -> list[Problem]:
    """Conditions that are not as they should be, without what partitions say themselves."""
    older = [stream.partition(finding.partition) for finding in findings]
    told = [*(one.message for one in findings), *(one.message for one in older if one)]
    problems = []
    for type_, bad, what in (
        ("Degraded", "True", "The stream is degraded"),
        ("WindowHealthy", "False", "Ids are forgotten too soon"),
        ("SnapshotsHealthy", "False", "Snapshots are not as they should be"),
    ):
        condition = stream.condition(type_, bad)
        if condition is None:
            continue
        rest = condition.message
        for message in filter(None, told):
            rest = _told(message).sub("", rest)
        if rest == condition.message:
            problems.append(_of_condition(what, condition))
        elif rest := re.sub(r"And \d+ more\.", "", rest).strip():
            problems.append(Problem(what=what, why=rest))
    return problems


def _of_condition(what: str, condition: Condition, events: Sequence[str] = ()) -> Problem:
    return Problem(
        what=what,
        why=f"{condition.reason}: {condition.message}",
        do=_STREAM_ADVICE.get(condition.reason, ""),
        events=events,
    )


def _told(message: str) -> re.Pattern[str]:
    """A partition's message where a condition repeats it as a sentence, with all whom it is about."""
    text = re.escape(message.strip(" .!"))
    return re.compile(rf"(?<!\S)(partitions? [0-9, ]+: )?{text}[.!]?(\s+|$)", re.IGNORECASE)


def _of_partition(look: Look, partition: int) -> _Finding | None:
    """What the worker says of itself, or else what the operator found."""
    stream, worker = look.stream, look.workers.get(partition)
    told = stream.partition(partition)
    if worker and worker.ready:
        if worker.window.healthy or stream.condition("WindowHealthy", "False"):
            return None
        message = (
            "ids younger than spec.store.window.alertBelow were given up: raise "
            "spec.store.window.maxBytes and spec.storage.size"
        )
        what, reason = "it forgets ids too soon", "TooShort"
    elif worker and worker.reason and worker.message:
        what, reason, message = "its worker waits", worker.reason, worker.message
    elif told and told.message and not told.ready:
        what, message = f"it is not ready ({told.phase.value})", told.message
        degraded = stream.condition("Degraded", "True")
        # A condition of several problems has the reason of the first.
        first = degraded is not None and _told(message).match(degraded.message)
        reason = degraded.reason if degraded and first else ""
    else:
        return None
    return _Finding(partition=partition, what=what, reason=reason, message=message)


def _grouped(facts: Facts, findings: Sequence[_Finding]) -> list[Problem]:
    """The same finding of several partitions is one problem."""
    groups: dict[_Finding, list[int]] = {}
    for finding in findings:
        groups.setdefault(replace(finding, partition=0), []).append(finding.partition)
    return [
        Problem(
            what=f"Partition{'s' * (len(partitions) > 1)} {ranges(partitions)}: {finding.what}",
            why=finding.why,
            do=_PARTITION_ADVICE.get(finding.reason, ""),
            events=_events(facts, partitions),
        )
        for finding, partitions in groups.items()
    ]


def _events(facts: Facts, partitions: Iterable[int]) -> tuple[str, ...]:
    """The newest warnings about partitions' objects, each once."""
    since = (facts.now - _EVENTS_COUNT_FOR).isoformat()
    name = facts.look.stream.name
    which = "|".join(map(str, partitions))
    ours = {
        "StatefulSet": rf"{re.escape(name)}-({which})",
        "Pod": rf"{re.escape(name)}-({which})-0",
        "PersistentVolumeClaim": rf"{re.escape(name)}-({which})-[0-9]+",
    }
    told = [
        f"{event.get('reason')}: {event.get('message')}"
        for event in sorted(facts.events, key=_time, reverse=True)
        if _time(event) > since
        and (pattern := ours.get(event["involvedObject"].get("kind", "")))
        and re.fullmatch(pattern, event["involvedObject"].get("name", ""))
    ]
    return tuple(dict.fromkeys(told))[:_SHOWN_EVENTS]


def _time(event: Object) -> str:
    """When an event was seen last, in RFC 3339."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
