"""Apply the child objects of a stream, and carry out the rollout of its workers.

The reconciler calls it once a pass, after the claims are chosen. An object that is as wanted is not written.
"""

from dataclasses import dataclass

from dedupe_crds.status.stream import Restore, RestoreSource
from dedupe_operator import lasting_volumes
from dedupe_operator.controller.children import Children
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.controller.pod_defaults import DefaultsChooser
from dedupe_operator.controller.pod_replacement import PodReplacer
from dedupe_operator.decide import rollout, volume_expansion
from dedupe_operator.decide.diagnosis import Problem, with_advice
from dedupe_operator.decide.rollout import WorkerState
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import (
    CLAIMS,
    STATEFUL_SETS,
)
from dedupe_operator.resources import (
    PER_PARTITION,
    ROUTERS,
    SHARED,
    PartitionInputs,
    RouterInputs,
    StreamInputs,
    config_map,
    persistent_volume_claim,
)
from dedupe_operator.resources.config_map import Config
from dedupe_operator.resources.pod_template import WorkerRelease
from dedupe_operator.snapshots.provider import ProviderError
from dedupe_operator.volume_manager import VolumeManager


@dataclass(frozen=True, slots=True)
class Applier:
    """Writer of child objects. An error of one partition does not block the others."""

    api: KubernetesApi
    children: Children
    release: WorkerRelease
    volumes: VolumeManager
    defaults: DefaultsChooser
    cluster_scope: bool = True

    def apply(self, context: ReconcileContext, result: ReconcileResult) -> None:
        """Apply all children, as far as is possible in this pass."""
        if not context.partitions or (context.growth and context.growth.must_wait):
            return
        with result.reporting():
            lasting_volumes.keep(self.api, context, result)
        complete = self._apply_shared(context, result)
        self._apply_routers(context, result, complete=complete)
        wanted: dict[int, Object] = {}
        config = config_map.of_workers(context.stream) if complete else None
        for partition in result.claims.keys() - result.undecided:
            try:
                if stateful_set := self._apply_partition(context, result, partition, config):
                    wanted[partition] = stateful_set
            except KubernetesError as error:
                result.partition_problems[partition] = with_advice(error.reason, str(error))
            except ProviderError as error:
                message = f"the volume can't be created yet: {error}"
                result.partition_problems[partition] = with_advice(error.reason, message)
        if context.secrets_hash is not None:
            self._roll_out(context, result, wanted)

    def _apply_shared(self, context: ReconcileContext, result: ReconcileResult) -> bool:
        """Apply the children that all partitions share; return whether none was refused.

        After a refusal no worker is started. Those that run keep what they mount, and get their volumes.
        """
        inputs = StreamInputs(
            stream=context.stream,
            release=self.release,
            admin_token=context.admin_token,
            joining=context.unready_added,
        )
        before = len(result.stream_problems)
        for build in SHARED:
            with result.reporting():
                if wanted := build(inputs):
                    self.children.ensure(context, wanted)
        return len(result.stream_problems) == before

    def _apply_routers(
        self, context: ReconcileContext, result: ReconcileResult, *, complete: bool
    ) -> None:
        """Apply the children of the routers; an error does not block the workers."""
        if context.stream.spec.repartition is None:
            return
        live = context.observed.router_set
        config = config_map.of_routers(context.stream) if complete else None
        inputs = RouterInputs(
            stream=context.stream,
            release=self.release,
            secrets_hash=context.secrets_hash,
            config=config_map.to_mount(live, config),
        )
        with result.reporting():
            for build in ROUTERS:
                wanted = build(inputs)
                if wanted and wanted["kind"] == STATEFUL_SETS.kind:
                    wanted = self.defaults.build(build, inputs, live, context.now) or wanted
                    result.routers_change = not (
                        live
                        and self.children.is_current(live, wanted)
                        and rollout.is_newest(live, context.observed.routers.values())
                    )
                if wanted:
                    self.children.ensure(context, wanted)

    def _apply_partition(
        self,
        context: ReconcileContext,
        result: ReconcileResult,
        partition: int,
        config: Config | None,
    ) -> Object | None:
        """Apply a partition's claim and Service; return its StatefulSet as wanted."""
        live = context.observed.stateful_sets.get(partition)
        inputs = self._inputs(context, result, partition, config)
        for build in PER_PARTITION:
            wanted = build(inputs)
            if wanted and wanted["kind"] == STATEFUL_SETS.kind:
                return self.defaults.build(build, inputs, live, context.now)
            if wanted:
                self.children.ensure(context, wanted)
        return None

    def _inputs(
        self,
        context: ReconcileContext,
        result: ReconcileResult,
        partition: int,
        config: Config | None,
    ) -> PartitionInputs:
        choice = result.claims[partition]
        stateful_set = context.observed.stateful_sets.get(partition)
        live = context.observed.children.get((CLAIMS.kind, choice.name))
        size, problem = self._claim_size(context, live)
        if problem := problem or volume_expansion.failure(live):
            result.partition_problems[partition] = problem
        if live is None:
            source = self.volumes.restores.source(context, partition, choice)
            size, claim_source = max(size, source.least_size), source.claim_spec
        else:
            self.volumes.restores.provision(context, partition, choice, live)
            claim_source = persistent_volume_claim.origin(live, choice.restore)
        return PartitionInputs(
            stream=context.stream,
            partition=partition,
            served=len(context.partitions),
            claim_name=choice.name,
            live_claim=live,
            size=size,
            claim_source=claim_source,
            release=self.release,
            secrets_hash=context.secrets_hash,
            config=config_map.to_mount(stateful_set, config),
            restore_from=_bucket_snapshot(choice.restore),
            restore_location=choice.restore.location,
            restore_request=choice.restore.request,
        )

    def _claim_size(
        self, context: ReconcileContext, live: Object | None
    ) -> tuple[int, Problem | None]:
        """Return the size to request, with the problem if the spec's size is not possible."""
        size = context.stream.spec.storage.size
        if live is None:
            return size, None
        if not volume_expansion.needs_expansion(live, size):
            return volume_expansion.requested(live), None
        if not self.cluster_scope:
            return size, None  # the API server refuses what the StorageClass does not allow
        class_name = live["spec"].get("storageClassName")
        storage_class = context.classes.get(class_name) if class_name else None
        problem = volume_expansion.refusal(live, size, storage_class)
        return (volume_expansion.requested(live) if problem else size), problem

    def _roll_out(
        self, context: ReconcileContext, result: ReconcileResult, wanted: dict[int, Object]
    ) -> None:
        # One that can't be changed in this pass is waited for, too.
        states: dict[int, WorkerState] = {
            partition: self._worker_state(context, partition, stateful_set)
            for partition, stateful_set in {**context.observed.stateful_sets, **wanted}.items()
        }
        # What learns ids runs as wanted, perhaps for hours: it blocks no rollout, and none waits for it.
        learning = {each for each in context.learning if each in states and states[each].current}
        together = context.growth is not None and context.growth.hands_over
        changing = rollout.may_change(states, besides=learning, together=together)
        if changing & context.observed.stateful_sets.keys():
            self.api.require_live()  # another worker may have become unready meanwhile
        for partition in sorted(changing):
            try:
                self._change_worker(context, result, wanted[partition], partition)
            except KubernetesError as error:
                result.partition_problems[partition] = with_advice(error.reason, str(error))
        outdated = {partition for partition, state in states.items() if not state.current}
        result.waiting = sorted(outdated - changing)
        starting = {each for each, state in states.items() if not state.rolled_out} - learning
        result.starting = sorted(starting | changing)
        pods = PodReplacer(self.api)
        pods.replace_stuck(context, result)
        pods.replace_strays(context, result)
        pods.restart_to_expand(context, result, all_ready=not outdated and not starting)
        if not outdated and not starting:
            self.children.delete_unused_configs(context)

    def _worker_state(
        self, context: ReconcileContext, partition: int, wanted: Object
    ) -> WorkerState:
        live = context.observed.stateful_sets.get(partition)
        return rollout.worker_state(
            live,
            context.observed.pods.get(partition),
            wanted,
            current=live is not None and self.children.is_current(live, wanted),
        )

    def _change_worker(
        self, context: ReconcileContext, result: ReconcileResult, wanted: Object, partition: int
    ) -> None:
        try:
            self.children.ensure(context, wanted)
        except KubernetesError as error:
            live = context.observed.stateful_sets.get(partition)
            if error.reason != "FieldImmutable" or live is None:
                raise
            # Its pod continues to run, and the StatefulSet that the next pass creates adopts it.
            self.api.delete(STATEFUL_SETS, live, orphan=True)
            message = (
                f"StatefulSet {wanted['metadata']['name']} is deleted and created again: {error}"
            )
            result.events.append(StreamEvent(reason="StatefulSetReplaced", message=message))


def _bucket_snapshot(restore: Restore) -> str | None:
    """Return the snapshot in the bucket that the worker downloads, if any."""
    return restore.name if restore.source is RestoreSource.CHECKPOINT else None
