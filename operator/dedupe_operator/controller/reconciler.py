"""One look at a stream: observe, decide, apply, say. Whatever called for it, it does the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from dedupe_crds.manifest import ManifestError, parse_manifest
from dedupe_crds.spec.store import SnapshotProvider
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.stream import PartitionPhase, StreamStatus
from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator import metrics
from dedupe_operator.controller.apply import Applier
from dedupe_operator.controller.context import Findings, Look
from dedupe_operator.controller.observe import events_about, observe
from dedupe_operator.controller.status_writer import StatusWriter, read_status
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.credentials import CredentialsUnusable, secret_data
from dedupe_operator.decide import conditions, rollout
from dedupe_operator.decide import diagnosis as trouble
from dedupe_operator.decide import volume_claims as claims
from dedupe_operator.decide.conditions import Health
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.partition_status import PartitionView, status_of
from dedupe_operator.decide.stream_status import assemble, notices
from dedupe_operator.failover import Failover
from dedupe_operator.kubernetes.api import CLAIMS, STREAMS, KubernetesApi
from dedupe_operator.kubernetes.names import PAUSE, Object
from dedupe_operator.output_conflicts import Rivals
from dedupe_operator.reconcile_requests import Comparisons
from dedupe_operator.resources import admin_secret
from dedupe_operator.resources.pod_template import WorkerRelease
from dedupe_operator.snapshots.csi import CsiProvider
from dedupe_operator.snapshots.ebs.provider import EbsProvider
from dedupe_operator.snapshots.manager import Keeper, SnapshotsView
from dedupe_operator.snapshots.provider import Provider
from dedupe_operator.snapshots.restoring import Restorer
from dedupe_operator.snapshots.runner import Taker
from dedupe_operator.snapshots.s3 import S3Provider
from dedupe_operator.topic_watch import TopicsView, TopicsWatch
from dedupe_operator.volume_manager import Volumes
from dedupe_operator.worker_client import Workers

AT_REST_SECONDS: Final = 22.0
TROUBLED_SECONDS: Final = 15.0
MOVING_SECONDS: Final = 2.0
# Partitions whose events are read in one look: a cause they share shows in the first few.
_EVENTS_OF: Final = 4


@dataclass(slots=True)
class _Memory:
    """What is kept of a stream between looks, and may be lost."""

    topics: TopicsWatch
    writer: StatusWriter


class Reconciler:
    """Looks at streams, one after another or side by side, but each by one thread at a time."""

    def __init__(
        self,
        api: KubernetesApi,
        release: WorkerRelease,
        workers: Workers,
        rivals: Rivals,
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        providers: dict[SnapshotProvider, Provider] = {
            SnapshotProvider.CSI: CsiProvider(api),
            SnapshotProvider.EBS: EbsProvider(api),
            SnapshotProvider.S3: S3Provider(workers),
        }
        restorer = Restorer(providers)
        self._volumes = Volumes(restorer)
        self._applier = Applier(api, release, restorer)
        self._failover = Failover(api)
        self._keeper = Keeper(api, Taker(providers, workers))
        self._comparisons = Comparisons(workers)
        self._workers = workers
        self._rivals = rivals
        self._clock = clock
        self._memories: dict[Key, _Memory] = {}

    def look(self, key: Key) -> float | None:
        """Bring a stream nearer to what is wanted. Returns the seconds until the next look is due,
        None if there is nothing to look at any more.

        Raises KubernetesError.
        """
        raw = self._api.get(STREAMS, key.namespace, key.name)
        if raw is None or raw["metadata"].get("deletionTimestamp"):
            # The API server's garbage collector takes the children along.
            self._keeper.release_all(key.namespace, key.name)
            self._forget(key)
            return None
        memory = self._memories.setdefault(
            key, _Memory(TopicsWatch(self._clock), StatusWriter(self._api))
        )
        recorded = read_status(raw)
        now = datetime.now(UTC).replace(microsecond=0)
        if (raw["metadata"].get("annotations") or {}).get(PAUSE) == "true":
            return self._pause(raw, recorded, memory, now)
        try:
            stream = parse_manifest(raw, f"{key.namespace}/{key.name}")
        except ManifestError as error:
            return self._refuse(raw, recorded, memory, str(error), now)
        return self._reconcile(raw, stream, recorded, memory, now)

    def _reconcile(
        self,
        raw: Object,
        stream: DedupeStream,
        recorded: StreamStatus,
        memory: _Memory,
        now: datetime,
    ) -> float:
        look, problems = self._prepare(raw, stream, recorded, memory, now=now)
        findings = Findings()
        moves = self._failover.plan(look, findings)
        self._choose_claims(raw, look, findings, memory)
        self._failover.act(look, findings, moves)
        self._applier.apply(look, findings)
        self._comparisons.act(look, findings)
        snapshots = self._keeper.act(look, findings)
        views = self._views(look, findings)
        problems = [*findings.stream_problems, *problems, *_of_partitions(views)]
        status = _status(look, findings, views, snapshots, problems)
        memory.writer.write(raw, recorded, status)
        changed = notices(recorded.conditions, status.conditions)
        memory.writer.tell(raw, [*findings.notices, *changed])
        key = Key(stream.metadata.namespace, stream.metadata.name)
        ready = bool(views) and all(view.ready for view in views)
        metrics.STREAM_READY.labels(*key).set(ready)
        return min(
            _wait(findings, ready=ready or stream.spec.suspend, problems=bool(problems)),
            max(MOVING_SECONDS, findings.look_within or AT_REST_SECONDS),
        )

    def _prepare(
        self,
        raw: Object,
        stream: DedupeStream,
        recorded: StreamStatus,
        memory: _Memory,
        *,
        now: datetime,
    ) -> tuple[Look, list[Problem]]:
        """See what there is, ask Kafka, and put together what is known."""
        observed = observe(self._api, stream, recorded)
        admin_token = admin_secret.token(observed.admin_secret)
        secrets_hash: str | None = None
        data: Mapping[str, bytes] = {}
        try:
            data = secret_data(stream, observed.kafka_secret)
            secrets_hash = _hash(admin_token, data)
            topics = memory.topics.look(stream, data)
        except CredentialsUnusable as error:
            topics = TopicsView(problems=(error.problem,))
        key = Key(stream.metadata.namespace, stream.metadata.name)
        if rival := self._rivals.problem(key, raw):
            topics = replace(topics, usable=False, problems=(rival, *topics.problems))
        look = Look(
            stream=stream,
            generation=raw["metadata"]["generation"],
            recorded=recorded,
            observed=observed,
            topics=topics,
            admin_token=admin_token,
            secrets_hash=secrets_hash,
            kafka_secret=data,
            workers=self._workers.statuses(observed.pods),
            now=now,
        )
        return look, list(topics.problems)

    def _choose_claims(self, raw: Object, look: Look, findings: Findings, memory: _Memory) -> None:
        """Choose every partition's volume, and put new choices and moves on record before they are acted upon."""
        intent = self._volumes.choose(look, findings)
        if findings.failovers:
            intent = [
                one.model_copy(update={"failover": moved})
                if (moved := findings.failovers.get(one.partition))
                else one
                for one in intent or look.recorded.partitions
            ]
        if intent is not None:
            memory.writer.write(
                raw, look.recorded, look.recorded.model_copy(update={"partitions": intent})
            )

    def _views(self, look: Look, findings: Findings) -> list[PartitionView]:
        """Find out what keeps those that are not ready."""
        asked = 0
        views = []
        for partition, choice in findings.claims.items():
            pod, worker = look.observed.pods.get(partition), look.workers.get(partition)
            problem = findings.partition_problems.get(partition)
            if problem is None and not rollout.is_ready(pod) and not look.stream.spec.suspend:
                asked += 1
                problem = trouble.of_worker(worker) or self._trouble(
                    look, partition, choice.name, with_events=asked <= _EVENTS_OF
                )
            views.append(
                PartitionView(
                    partition=partition,
                    claim=choice,
                    pod=pod,
                    worker=worker,
                    problem=problem,
                    suspended=look.stream.spec.suspend,
                    provisioned=(CLAIMS.kind, choice.name) in look.observed.children
                    or _is_left_as_it_was(look, findings, partition),
                    failover=findings.failovers.get(partition),
                    bound=claims.is_bound(look.observed.children.get((CLAIMS.kind, choice.name))),
                )
            )
        return views

    def _trouble(
        self, look: Look, partition: int, claim_name: str, *, with_events: bool
    ) -> Problem | None:
        """What Kubernetes says about a partition that is not ready."""
        observed = look.observed
        pod = observed.pods.get(partition)
        stateful_set = observed.stateful_sets.get(partition)
        claim = observed.children.get((CLAIMS.kind, claim_name))
        if ((claim or {}).get("status") or {}).get("phase") == "Pending":
            events = events_about(self._api, claim) if with_events else []
            if problem := trouble.of_claim(claim, events):
                return problem
        events = events_about(self._api, pod or stateful_set) if with_events else []
        return trouble.of_pod(pod, stateful_set, events, look.now)

    def _pause(self, raw: Object, recorded: StreamStatus, memory: _Memory, now: datetime) -> float:
        told = conditions.paused(
            generation=raw["metadata"]["generation"], earlier=recorded.conditions, now=now
        )
        self._say(raw, recorded, recorded.model_copy(update={"conditions": told}), memory)
        return AT_REST_SECONDS

    def _refuse(
        self, raw: Object, recorded: StreamStatus, memory: _Memory, message: str, now: datetime
    ) -> float:
        generation = raw["metadata"]["generation"]
        told = conditions.invalid(
            message, generation=generation, earlier=recorded.conditions, now=now
        )
        update = {"conditions": told, "observed_generation": generation}
        self._say(raw, recorded, recorded.model_copy(update=update), memory)
        return AT_REST_SECONDS

    def _say(
        self, raw: Object, recorded: StreamStatus, status: StreamStatus, memory: _Memory
    ) -> None:
        memory.writer.write(raw, recorded, status)
        memory.writer.tell(raw, notices(recorded.conditions, status.conditions))

    def _forget(self, key: Key) -> None:
        self._rivals.forget(key)
        if self._memories.pop(key, None):
            metrics.forget_stream(*key)


def _wait(findings: Findings, *, ready: bool, problems: bool) -> float:
    """The seconds until the next look."""
    if (findings.waiting or findings.unsettled) and not problems:
        return MOVING_SECONDS
    return AT_REST_SECONDS if ready and not problems else TROUBLED_SECONDS


def _of_partitions(views: list[PartitionView]) -> list[Problem]:
    """The problems of partitions, each cause once and with all whom it keeps."""
    kept: dict[Problem, list[int]] = {}
    for view in views:
        if view.problem:
            kept.setdefault(view.problem, []).append(view.partition)
    return [
        Problem(
            reason=problem.reason,
            message=f"partition{'s' * (len(who) > 1)} {', '.join(map(str, who))}: {problem.message}",
        )
        for problem, who in kept.items()
    ]


def _status(
    look: Look,
    findings: Findings,
    views: list[PartitionView],
    snapshots: SnapshotsView,
    problems: list[Problem],
) -> StreamStatus:
    partitions = [
        status_of(view, look.recorded_partition(view.partition), snapshots.last.get(view.partition))
        for view in views
    ]
    health = Health(
        partitions=partitions,
        problems=problems,
        waiting=findings.waiting,
        unsettled=findings.unsettled,
        unhealthy_windows=_unhealthy_windows({view.partition: view.worker for view in views}),
        suspended=look.stream.spec.suspend,
        snapshots=snapshots.verdict,
    )
    told = conditions.judge(
        health, generation=look.generation, earlier=look.recorded.conditions, now=look.now
    )
    status = assemble(generation=look.generation, conditions=told, partitions=partitions)
    return status.model_copy(update={"last_schedule_time": snapshots.last_schedule_time})


def _unhealthy_windows(workers: Mapping[int, WorkerStatus | None]) -> list[int] | None:
    known = {partition: worker for partition, worker in workers.items() if worker}
    if not known:
        return None
    return [partition for partition, worker in known.items() if not worker.window.healthy]


def _hash(admin_token: str, data: Mapping[str, bytes]) -> str:
    """Changes with any secret a worker reads at its start, and tells nothing of it."""
    digest = sha256(admin_token.encode())
    for key in sorted(data):
        digest.update(key.encode() + b"\0" + sha256(data[key]).digest())
    return digest.hexdigest()[:16]


def _is_left_as_it_was(look: Look, findings: Findings, partition: int) -> bool:
    """Whether a claim that is gone stays on record because what follows it can't be told yet: it is not to come."""
    recorded = look.recorded_partition(partition)
    was_to_come = recorded is not None and recorded.phase is PartitionPhase.PROVISIONING
    undecided = partition in findings.undecided and not findings.claims[partition].is_new
    return undecided and not was_to_come
