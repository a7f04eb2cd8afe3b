"""What is wrong with a stream, why, and what to do. Values in, values out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dedupe_kubectl.look import Look
from dedupe_kubectl.objects import Object, Stream, is_ready
from dedupe_kubectl.words import ranges
from dedupe_kubectl.worker_problems import Finding, event_time, worker_findings

_PATIENCE: Final = timedelta(minutes=1)
_EVENTS_COUNT_FOR: Final = timedelta(minutes=30)  # twice the longest back-off of a controller
_DELETION_PATIENCE: Final = timedelta(minutes=5)

ADVICE: Final = {
    "InvalidManifest": "correct the field that is named, and apply the manifest again",
    "BrokerUnavailable": "check spec.kafka.bootstrapServers, and that pods can reach the brokers",
    "TopicMissing": "create the input topic, or name another in a new stream",
    "TopicRefused": "create the output topic by hand as the message says, or allow it to be created",
    "NotAuthorized": "correct client.properties in the Secret of spec.kafka.configSecretRef, or grant the rights",
    "SecretMissing": "create the Secret that spec.kafka.configSecretRef names, with the key client.properties",
    "SecretIncomplete": "put the key client.properties into the Secret of spec.kafka.configSecretRef",
    "SecretInvalid": "correct the key client.properties of the Secret of spec.kafka.configSecretRef",
    "StorageClassMissing": "create the storage class, or name another in spec.storage.storageClassName",
    "VolumeExpansionNotAllowed": "set spec.storage.size back, or allow expansion in the storage class",
    "QuotaExceeded": "raise the namespace's ResourceQuota, or lower what the workers request",
    "ImagePullFailed": "correct spec.worker.image, or make the image available to the nodes",
    "Unschedulable": "add nodes, or lower spec.worker.resources",
    "OutOfMemory": "raise spec.worker.resources.limits.memory",
    "OutputTopicTooFewPartitions": "add partitions to the output topic",
    "OutputTopicCompacted": "set cleanup.policy=delete on the output topic",
    "OutputRetentionTooShort": "raise retention.ms of the output topic to spec.store.window.maxAge",
    "TooShort": "raise spec.store.window.maxBytes, and spec.storage.size with it",
    "DiskFull": "raise spec.storage.size",
    "RecordTooLarge": "raise max.message.bytes of the output topic",
    "InputTruncated": "see docs/guarantees.md: the input topic ends before what was read",
}
"""What to do, by the stable reasons of conditions and workers."""

_LOOK_AT_THE_LOG: Final = "see the operator's log: kubectl logs -n {namespace} {pod}"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, with the partitions and the Kubernetes events it shows in."""

    what: str
    why: str
    do: str
    events: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What problems are found in. `operators` are their pods, None if the user may not see them."""

    look: Look
    now: datetime
    events: Sequence[Object] = ()
    operators: Sequence[Object] | None = None


def find(facts: Facts) -> list[Problem]:
    """All that is wrong, the gravest first."""
    stream = facts.look.stream
    found = _of_operator(facts)
    if stream.paused:
        found.append(
            Problem(
                what="The operator is kept off this stream",
                why="the annotation dedupestream.io/pause-reconciliation is true, so nothing is mended or rolled out",
                do=f"kubectl annotate -n {stream.namespace} dedupestream {stream.name} "
                "dedupestream.io/pause-reconciliation-",
            )
        )
    if stream.deleting and facts.now - stream.deleting > _DELETION_PATIENCE:
        found.append(
            Problem(
                what="The stream is being deleted, and is not gone",
                why=f"finalizers hold it since {stream.deleting.isoformat()}",
                do="see that the operator runs; its finalizer goes when it has cleaned up",
            )
        )
    since = (facts.now - _EVENTS_COUNT_FOR).isoformat()
    fresh = [event for event in facts.events if event_time(event) > since]
    findings = worker_findings(facts.look, fresh)
    partitions = _grouped(findings)
    return [*found, *_of_conditions(stream, findings), *partitions]


def advice(reason: str) -> str:
    """What to do about a reason; what is not known here is in the message beside it."""
    return ADVICE.get(reason, "what the line above says")


def _of_operator(facts: Facts) -> list[Problem]:
    """The operator does not act: nothing else is up to date then."""
    stream = facts.look.stream
    unseen = not stream.status.conditions
    if stream.observed and not unseen:
        return []
    if stream.paused or facts.now - stream.changed < _PATIENCE:
        return []
    what = "has not seen this stream" if unseen else "has not acted on the newest change"
    why, do = _why_no_operator(facts.operators)
    return [Problem(what=f"The operator {what}", why=why, do=do)]


def _why_no_operator(operators: Sequence[Object] | None) -> tuple[str, str]:
    if operators is None:
        return (
            "it may be down, or not watch this namespace; you may not see its pods",
            "ask who runs it: kubectl get pods -A -l app.kubernetes.io/component=operator",
        )
    if not operators:
        return "no operator runs in this cluster", "install its chart: helm install dedupestream …"
    metadata = operators[0]["metadata"]
    log = _LOOK_AT_THE_LOG.format(namespace=metadata["namespace"], pod=metadata["name"])
    if not any(is_ready(pod) for pod in operators):
        return f"its pod {metadata['namespace']}/{metadata['name']} is not ready", log
    return (
        "it runs, and may not watch this namespace or not reach the API server",
        f"see watch.namespaces of its chart, and {log.removeprefix('see ')}",
    )


def _of_conditions(stream: Stream, findings: Sequence[Finding]) -> list[Problem]:
    """Conditions that are not as they should be, without what partitions say themselves."""
    told = [finding.why for finding in findings]
    problems: list[Problem] = []
    for type_, bad, what in (
        ("Degraded", "True", "The stream is degraded"),
        ("WindowHealthy", "False", "Ids are forgotten too soon"),
        ("SnapshotsHealthy", "False", "Snapshots fail"),
        ("Ready", "False", "The stream is not ready"),
    ):
        one = stream.condition(type_)
        if one is None or one.status.value != bad:
            continue
        if type_ == "Ready" and (stream.suspended or problems or findings):
            continue  # what keeps it from being ready is told already
        if any(_same(one.message, why) for why in told):
            continue
        why = f"{one.reason}: {one.message}"
        problems.append(Problem(what=what, why=why, do=advice(one.reason)))
    return problems


def _same(condition: str, finding: str) -> bool:
    """Whether a condition's message is about a finding: it repeats its text as a sentence."""
    text = finding.partition(": ")[2] or finding
    return any(one.strip(" .").lower() in condition.lower() for one in (finding, text))


def _grouped(findings: Sequence[Finding]) -> list[Problem]:
    """The same finding of several partitions is one problem."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.what, finding.why, finding.reason), []).append(finding)
    return [
        Problem(
            what=f"Partition{'s' * (len(group) > 1)} {ranges(one.partition for one in group)}: {what}",
            why=why,
            do=group[0].do or advice(reason),
            events=tuple(dict.fromkeys(line for one in group for line in one.events))[:5],
        )
        for (what, why, reason), group in groups.items()
    ]
