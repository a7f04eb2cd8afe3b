"""One reconcile pass over a stream: observe, decide, apply, write the status.

The controller's threads call `Reconciler.reconcile`. A pass is level-triggered: it acts on the state it finds, whatever
event or timer caused it.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from dedupe_crds.annotations import PAUSE
from dedupe_crds.manifest import ManifestError, parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.stream import StreamStatus
from dedupe_operator import metrics, volume_intents
from dedupe_operator.controller.apply import Applier
from dedupe_operator.controller.build_status import build_status
from dedupe_operator.controller.children import Children
from dedupe_operator.controller.context import (
    ReconcileContext,
    ReconcileResult,
)
from dedupe_operator.controller.event_recorder import EventRecorder
from dedupe_operator.controller.gauges import set_gauges
from dedupe_operator.controller.kafka_view import KafkaViews, KafkaWatches
from dedupe_operator.controller.observe import observe
from dedupe_operator.controller.partition_views import partition_views
from dedupe_operator.controller.pod_defaults import DefaultsChooser
from dedupe_operator.controller.router_view import router_view
from dedupe_operator.controller.status_writer import StatusWriter
from dedupe_operator.controller.stream_memory import StreamMemory
from dedupe_operator.controller.unreconciled import paused_status, refused_status
from dedupe_operator.controller.upgrade_pace import UpgradePace
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.allow_list import AllowList
from dedupe_operator.decide.diagnosis import Problem, by_cause
from dedupe_operator.errors import KubernetesError, LostLeadership
from dedupe_operator.failover import Failover
from dedupe_operator.failover_brake import FailoverBrake
from dedupe_operator.kafka_asks import AnswerPending, KafkaAsks
from dedupe_operator.kubernetes.api import KubernetesApi, ReadLive
from dedupe_operator.kubernetes.event_reader import EventReader
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import STREAMS
from dedupe_operator.kubernetes.storage_classes import StorageClasses
from dedupe_operator.reconcile_requests import ReconcileRequests
from dedupe_operator.resources import admin_secret
from dedupe_operator.resources.pod_template import WorkerRelease
from dedupe_operator.snapshots.manager import SnapshotManager
from dedupe_operator.snapshots.providers import all_providers
from dedupe_operator.volume_manager import VolumeManager
from dedupe_operator.worker_client import WorkerClient

RESYNC_SECONDS: Final = 22.0
_RESYNCS_PER_SECOND: Final = 6.0  # of all streams at rest
PROBLEM_RETRY_SECONDS: Final = 15.0
ROLLOUT_POLL_SECONDS: Final = 2.0
PENDING_SECONDS: Final = 5.0  # the answer of Kafka brings the next pass on


def utc_now() -> datetime:
    """Return the time, in whole seconds as Kubernetes writes it."""
    return datetime.now(UTC).replace(microsecond=0)


class Reconciler:
    """Reconciles streams. Several threads may call it, each for another stream.

    `clock` returns seconds, never backward, and `now` the time in UTC. `failover` reads nodes, `cluster_scope` classes.
    """

    def __init__(
        self,
        api: KubernetesApi,
        release: WorkerRelease,
        workers: WorkerClient,
        asks: KafkaAsks,
        kafka: KafkaViews,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime] = utc_now,
        max_nodes_not_ready_percent: int = 50,
        failover: bool = True,
        cluster_scope: bool = True,
        allowed: AllowList = AllowList(),  # noqa: B008 (it is frozen)
    ) -> None:
        self._api = api
        providers = all_providers(api, workers)
        self._volumes = VolumeManager(providers)
        applier = Applier(
            *(api, Children(api, clock), release, self._volumes),
            defaults=DefaultsChooser(api, reads_nodes=failover),
            cluster_scope=cluster_scope,
        )
        self._applier = UpgradePace(applier, release, clock)
        brake = FailoverBrake(api, max_nodes_not_ready_percent)
        self._failover = Failover(api, brake, enabled=failover)
        self._snapshots = SnapshotManager(api, providers, workers)
        self._reconcile_requests = ReconcileRequests(workers)
        self._workers = workers
        self._asks = asks
        self._kafka = kafka
        self._allowed = allowed
        self._clock = clock
        self._now = now
        self._memories: dict[Key, StreamMemory] = {}

    def reconcile(self, key: Key) -> float | None:
        """Bring a stream closer to its spec; return the seconds until the next pass.

        None: the stream is gone, so there is no next pass. Raises KubernetesError; if passes fail repeatedly, the
        status says so.
        """
        try:
            wait = self._look(key)
        except LostLeadership:
            raise
        except Exception as error:
            self._tell_unfinished(key, error)
            raise
        if memory := self._memories.get(key):
            memory.finished()
        return wait

    def _look(self, key: Key) -> float | None:
        """Make a pass from memory, and again with live reads if it asks for them."""
        try:
            with self._api.from_memory():
                return self._pass(key)
        except ReadLive:
            return self._pass(key, again=True)

    def _tell_unfinished(self, key: Key, error: Exception) -> None:
        """Write that no pass can be finished, once it lasts."""
        memory = self._memories.get(key)
        if memory is None or not memory.failed(self._clock()):
            return
        with suppress(KubernetesError):
            raw = self._api.get(STREAMS, key.namespace, key.name)
            if raw is not None and raw["metadata"]["uid"] == memory.uid:
                memory.write_unfinished(raw, error, self._now())

    def _pass(self, key: Key, *, again: bool = False) -> float | None:
        raw = self._api.get(STREAMS, key.namespace, key.name)
        if raw is None or raw["metadata"].get("deletionTimestamp"):
            # The API server's garbage collector deletes the children.
            self._snapshots.release_all(key.namespace, key.name)
            self._forget(key)
            return None
        memory = self._memory_of(key, raw["metadata"]["uid"])
        recorded = memory.writer.read(raw)
        now = self._now()
        if (raw["metadata"].get("annotations") or {}).get(PAUSE) == "true":
            status = paused_status(self._api, raw, recorded, now)
            memory.write(raw, recorded, status)
            return RESYNC_SECONDS
        refusal: Problem | None
        try:
            stream = parse_manifest(raw, f"{key.namespace}/{key.name}")
        except ManifestError as error:
            refusal = Problem(reason="InvalidManifest", message=str(error))
        else:
            refusal = self._allowed.refusal(stream)
        if refusal:
            status = refused_status(raw, recorded, refusal, now)
            memory.write(raw, recorded, status)
            return RESYNC_SECONDS
        try:
            return self._reconcile_stream(raw, stream, recorded, memory, now=now, again=again)
        except AnswerPending:
            return PENDING_SECONDS

    def _memory_of(self, key: Key, uid: str) -> StreamMemory:
        memory = self._memories.get(key)
        if memory is not None and memory.uid != uid:
            self._forget(key)  # it was deleted and created again between two passes
            memory = None
        if memory is None:
            memory = self._memories[key] = StreamMemory(
                *(uid, KafkaWatches(self._asks), EventReader(self._api, self._clock)),
                writer=StatusWriter(self._api),
                events=EventRecorder(self._api, self._now),
            )
        return memory

    def _reconcile_stream(
        self,
        raw: Object,
        stream: DedupeStream,
        recorded: StreamStatus,
        memory: StreamMemory,
        *,
        now: datetime,
        again: bool,
    ) -> float:
        context, problems = self._observe(raw, stream, recorded, memory, now=now, again=again)
        result = ReconcileResult()
        if context.growth and context.growth.is_due and not stream.spec.suspend:
            result.requeue_within(ROLLOUT_POLL_SECONDS)
        failover = self._failover.plan(context, result)
        self._choose_claims(raw, context, result, memory)
        self._failover.act(context, result, failover)
        self._applier.apply(context, result)
        self._reconcile_requests.act(context, result)
        snapshots = self._snapshots.act(context, result)
        views = partition_views(context, result)
        by_partition = {view.partition: view.problem for view in views if view.problem}
        routers = router_view(context, result)
        of_routers = routers.causes if routers else []
        unwritten = [each for each in (memory.writer.problem,) if each]
        of_stream = [*result.stream_problems, *unwritten, *problems]
        problems = [*of_stream, *by_cause(by_partition), *of_routers]
        status = build_status(context, result, views, snapshots, problems, routers=routers)
        memory.write(raw, recorded, status, result)
        counting = [view for view in views if view.partition not in context.joining]
        ready = bool(counting) and all(view.ready for view in counting)
        ready = ready and (routers is None or routers.ready > 0)
        set_gauges(context, status, ready=ready)
        well = (ready and (routers is None or routers.are_well)) or stream.spec.suspend
        wait = _wait(result, ready=well, problems=bool(problems))
        # Each change of an object brings a pass, so with many streams those at rest come more rarely.
        wait = wait or max(RESYNC_SECONDS, len(self._memories) / _RESYNCS_PER_SECOND)
        return min(wait, max(ROLLOUT_POLL_SECONDS, result.requeue_seconds or wait))

    def _observe(
        self,
        raw: Object,
        stream: DedupeStream,
        recorded: StreamStatus,
        memory: StreamMemory,
        *,
        now: datetime,
        again: bool,
    ) -> tuple[ReconcileContext, list[Problem]]:
        """Read the cluster, Kafka and workers; return context and topic problems."""
        memory.passes += not again
        observed = observe(self._api, stream, recorded, turn=memory.passes)
        workers = self._workers.statuses(observed.pods)
        admin_token = admin_secret.token(observed.admin_secret)
        kafka = self._kafka.view(
            *(stream, recorded, observed, workers),
            admin_token=admin_token,
            watches=memory.kafka,
            again=again,
        )
        context = ReconcileContext(
            stream=stream,
            metadata=raw["metadata"],
            recorded=recorded,
            observed=observed,
            topics=kafka.topics,
            admin_token=admin_token,
            secrets_hash=kafka.secrets_hash,
            kafka_secret=kafka.secret,
            states=memory.kafka.states,
            workers=workers,
            routers=self._workers.router_statuses(observed.routers),
            growth=kafka.growth,
            events=memory.reasons,
            classes=StorageClasses(self._api),
            now=now,
        )
        return context, kafka.problems

    def _choose_claims(
        self, raw: Object, context: ReconcileContext, result: ReconcileResult, memory: StreamMemory
    ) -> None:
        """Choose every partition's volume; record choices and failovers beforehand."""
        intent = self._volumes.choose(context, result, before_change=self._api.require_live)
        if result.failovers:
            self._api.require_live()
            intent = [
                partition.model_copy(update={"failover": failover})
                if (failover := result.failovers.get(partition.partition))
                else partition
                for partition in intent or context.recorded.partitions
            ]
        if intent is not None:
            status = context.recorded.model_copy(update={"partitions": intent})
            volume_intents.take_back(context, result, memory.writer.write(raw, status))
        volume_intents.announce(context, result)

    def _forget(self, key: Key) -> None:
        self._kafka.forget(key)
        self._applier.forget(key)
        if memory := self._memories.pop(key, None):
            memory.kafka.drop()
            metrics.forget_stream(*key)


def _wait(result: ReconcileResult, *, ready: bool, problems: bool) -> float | None:
    """Return the seconds until the next pass, None at rest."""
    if (result.waiting or result.starting) and not problems:
        return ROLLOUT_POLL_SECONDS
    return None if ready and not problems else PROBLEM_RETRY_SECONDS
