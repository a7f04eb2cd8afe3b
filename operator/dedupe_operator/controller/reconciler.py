"""One look at a stream: observe, decide, apply, say. Whatever called for it, it does the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from dedupe_crds.annotations import PAUSE
from dedupe_crds.manifest import ManifestError, parse_manifest
from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.stream import PartitionPhase, StreamStatus
from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator import metrics
from dedupe_operator.controller.apply import Applier
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.controller.observe import events_about, observe
from dedupe_operator.controller.status_writer import StatusWriter, read_status
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.credentials import CredentialsUnusable, secret_data
from dedupe_operator.decide import conditions, diagnosis, rollout, volume_claims
from dedupe_operator.decide.conditions import Health
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.partition_status import PartitionView, status_of
from dedupe_operator.decide.stream_status import assemble, condition_events
from dedupe_operator.failover import Failover
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import CLAIMS, STREAMS
from dedupe_operator.output_conflicts import OutputConflicts
from dedupe_operator.reconcile_requests import ReconcileRequests
from dedupe_operator.resources import admin_secret
from dedupe_operator.resources.pod_template import WorkerRelease
from dedupe_operator.snapshots.csi import CsiProvider
from dedupe_operator.snapshots.ebs.provider import EbsProvider
from dedupe_operator.snapshots.manager import SnapshotManager, SnapshotsView
from dedupe_operator.snapshots.provider import Provider
from dedupe_operator.snapshots.restoring import Restorer
from dedupe_operator.snapshots.runner import SnapshotRunner
from dedupe_operator.snapshots.s3 import S3Provider
from dedupe_operator.topic_watch import TopicsView, TopicWatch
from dedupe_operator.volume_manager import Volumes
from dedupe_operator.worker_client import WorkerClient

RESYNC_SECONDS: Final = 22.0
PROBLEM_RETRY_SECONDS: Final = 15.0
ROLLOUT_POLL_SECONDS: Final = 2.0
# Partitions whose events are read in one look: a cause they share shows in the first few.
_EVENTS_OF: Final = 4


@dataclass(slots=True)
class _Memory:
    """What is kept of a stream between looks, and may be lost."""

    topics: TopicWatch
    writer: StatusWriter


class Reconciler:
    """Looks at streams, one after another or side by side, but each by one thread at a time."""

    def __init__(
        self,
        api: KubernetesApi,
        release: WorkerRelease,
        workers: WorkerClient,
        output_conflicts: OutputConflicts,
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
        self._snapshots = SnapshotManager(api, SnapshotRunner(providers, workers))
        self._reconcile_requests = ReconcileRequests(workers)
        self._workers = workers
        self._output_conflicts = output_conflicts
        self._clock = clock
        self._memories: dict[Key, _Memory] = {}

    def reconcile(self, key: Key) -> float | None:
        """Bring a stream nearer to what is wanted. Returns the seconds until the next look is due,
        None if there is nothing to look at any more.

        Raises KubernetesError.
        """
        raw = self._api.get(STREAMS, key.namespace, key.name)
        if raw is None or raw["metadata"].get("deletionTimestamp"):
            # The API server's garbage collector takes the children along.
            self._snapshots.release_all(key.namespace, key.name)
            self._forget(key)
            return None
        memory = self._memories.setdefault(
            key, _Memory(TopicWatch(self._clock), StatusWriter(self._api))
        )
        recorded = read_status(raw)
        now = datetime.now(UTC).replace(microsecond=0)
        if (raw["metadata"].get("annotations") or {}).get(PAUSE) == "true":
            return self._pause(raw, recorded, memory, now)
        try:
            stream = parse_manifest(raw, f"{key.namespace}/{key.name}")
        except ManifestError as error:
            return self._refuse(raw, recorded, memory, str(error), now)
        return self._reconcile_stream(raw, stream, recorded, memory, now)

    def _reconcile_stream(
        self,
        raw: Object,
        stream: DedupeStream,
        recorded: StreamStatus,
        memory: _Memory,
        now: datetime,
    ) -> float:
        context, problems = self._prepare(raw, stream, recorded, memory, now=now)
        result = ReconcileResult()
        moves = self._failover.plan(context, result)
        self._choose_claims(raw, context, result, memory)
        self._failover.act(context, result, moves)
        self._applier.apply(context, result)
        self._reconcile_requests.act(context, result)
        snapshots = self._snapshots.act(context, result)
        views = self._views(context, result)
        problems = [*result.stream_problems, *problems, *_of_partitions(views)]
        status = _status(context, result, views, snapshots, problems)
        memory.writer.write(raw, recorded, status)
        changed = condition_events(recorded.conditions, status.conditions)
        memory.writer.emit(raw, [*result.events, *changed])
        key = Key(stream.metadata.namespace, stream.metadata.name)
        ready = bool(views) and all(view.ready for view in views)
        metrics.STREAM_READY.labels(*key).set(ready)
        return min(
            _wait(result, ready=ready or stream.spec.suspend, problems=bool(problems)),
            max(ROLLOUT_POLL_SECONDS, result.requeue_seconds or RESYNC_SECONDS),
        )

    def _prepare(
        self,
        raw: Object,
        stream: DedupeStream,
        recorded: StreamStatus,
        memory: _Memory,
        *,
        now: datetime,
    ) -> tuple[ReconcileContext, list[Problem]]:
        """See what there is, ask Kafka, and put together what is known."""
        observed = observe(self._api, stream, recorded)
        admin_token = admin_secret.token(observed.admin_secret)
        secrets_hash: str | None = None
        data: Mapping[str, bytes] = {}
        try:
            data = secret_data(stream, observed.kafka_secret)
            secrets_hash = _hash(admin_token, data)
            topics = memory.topics.get(stream, data)
        except CredentialsUnusable as error:
            topics = TopicsView(problems=(error.problem,))
        key = Key(stream.metadata.namespace, stream.metadata.name)
        if conflict := self._output_conflicts.problem(key, raw):
            topics = replace(topics, usable=False, problems=(conflict, *topics.problems))
        context = ReconcileContext(
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
        return context, list(topics.problems)

    def _choose_claims(
        self, raw: Object, context: ReconcileContext, result: ReconcileResult, memory: _Memory
    ) -> None:
        """Choose every partition's volume, and put new choices and moves on record before they are acted upon."""
        intent = self._volumes.choose(context, result)
        if result.failovers:
            intent = [
                one.model_copy(update={"failover": moved})
                if (moved := result.failovers.get(one.partition))
                else one
                for one in intent or context.recorded.partitions
            ]
        if intent is not None:
            memory.writer.write(
                raw, context.recorded, context.recorded.model_copy(update={"partitions": intent})
            )

    def _views(self, context: ReconcileContext, result: ReconcileResult) -> list[PartitionView]:
        """Find out what keeps those that are not ready."""
        asked = 0
        views = []
        for partition, choice in result.claims.items():
            pod, worker = context.observed.pods.get(partition), context.workers.get(partition)
            problem = result.partition_problems.get(partition)
            if problem is None and not rollout.is_ready(pod) and not context.stream.spec.suspend:
                asked += 1
                problem = diagnosis.of_worker(worker) or self._diagnose(
                    context, partition, choice.name, with_events=asked <= _EVENTS_OF
                )
            views.append(
                PartitionView(
                    partition=partition,
                    claim=choice,
                    pod=pod,
                    worker=worker,
                    problem=problem,
                    suspended=context.stream.spec.suspend,
                    provisioned=(CLAIMS.kind, choice.name) in context.observed.children
                    or _is_left_as_it_was(context, result, partition),
                    failover=result.failovers.get(partition),
                    bound=volume_claims.is_bound(
                        context.observed.children.get((CLAIMS.kind, choice.name))
                    ),
                )
            )
        return views

    def _diagnose(
        self, context: ReconcileContext, partition: int, claim_name: str, *, with_events: bool
    ) -> Problem | None:
        """What Kubernetes says about a partition that is not ready."""
        observed = context.observed
        pod = observed.pods.get(partition)
        stateful_set = observed.stateful_sets.get(partition)
        claim = observed.children.get((CLAIMS.kind, claim_name))
        if ((claim or {}).get("status") or {}).get("phase") == "Pending":
            events = events_about(self._api, claim) if with_events else []
            if problem := diagnosis.of_claim(claim, events):
                return problem
        events = events_about(self._api, pod or stateful_set) if with_events else []
        return diagnosis.of_pod(pod, stateful_set, events, context.now)

    def _pause(self, raw: Object, recorded: StreamStatus, memory: _Memory, now: datetime) -> float:
        told = conditions.paused(
            generation=raw["metadata"]["generation"], earlier=recorded.conditions, now=now
        )
        self._write_status(raw, recorded, recorded.model_copy(update={"conditions": told}), memory)
        return RESYNC_SECONDS

    def _refuse(
        self, raw: Object, recorded: StreamStatus, memory: _Memory, message: str, now: datetime
    ) -> float:
        generation = raw["metadata"]["generation"]
        told = conditions.invalid(
            message, generation=generation, earlier=recorded.conditions, now=now
        )
        update = {"conditions": told, "observed_generation": generation}
        self._write_status(raw, recorded, recorded.model_copy(update=update), memory)
        return RESYNC_SECONDS

    def _write_status(
        self, raw: Object, recorded: StreamStatus, status: StreamStatus, memory: _Memory
    ) -> None:
        memory.writer.write(raw, recorded, status)
        memory.writer.emit(raw, condition_events(recorded.conditions, status.conditions))

    def _forget(self, key: Key) -> None:
        self._output_conflicts.forget(key)
        if self._memories.pop(key, None):
            metrics.forget_stream(*key)


def _wait(result: ReconcileResult, *, ready: bool, problems: bool) -> float:
    """The seconds until the next look."""
    if (result.waiting or result.starting) and not problems:
        return ROLLOUT_POLL_SECONDS
    return RESYNC_SECONDS if ready and not problems else PROBLEM_RETRY_SECONDS


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
    context: ReconcileContext,
    result: ReconcileResult,
    views: list[PartitionView],
    snapshots: SnapshotsView,
    problems: list[Problem],
) -> StreamStatus:
    partitions = [
        status_of(
            view, context.recorded_partition(view.partition), snapshots.last.get(view.partition)
        )
        for view in views
    ]
    health = Health(
        partitions=partitions,
        problems=problems,
        waiting=result.waiting,
        starting=result.starting,
        unhealthy_windows=_unhealthy_windows({view.partition: view.worker for view in views}),
        suspended=context.stream.spec.suspend,
        snapshots=snapshots.verdict,
    )
    told = conditions.judge(
        health, generation=context.generation, earlier=context.recorded.conditions, now=context.now
    )
    status = assemble(generation=context.generation, conditions=told, partitions=partitions)
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


def _is_left_as_it_was(context: ReconcileContext, result: ReconcileResult, partition: int) -> bool:
    """Whether a claim that is gone stays on record because what follows it can't be told yet: it is not to come."""
    recorded = context.recorded_partition(partition)
    was_to_come = recorded is not None and recorded.phase is PartitionPhase.PROVISIONING
    undecided = partition in result.undecided and not result.claims[partition].is_new
    return undecided and not was_to_come
