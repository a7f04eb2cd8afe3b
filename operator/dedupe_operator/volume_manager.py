"""Choose each partition's volume: retain, reattach, or restore on a new one.

The reconciler calls it once a pass. Each partition takes one straight path: check the recorded claim, decide whether
it stays (`decide.volume_claims`), else choose the restore source (`decide.restore_source`), then the claim. A new
choice is in the stream's status before anything acts on it. While Kafka or a provider does not answer, the partition
retains its claim.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from dedupe_crds.annotations import OUTPUT_TOPIC, RestoreRequest, is_outdated, restore_requests
from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.stream import PartitionStatus, RestoreSource
from dedupe_kafka.errors import StreamError
from dedupe_operator import volume_intents
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide import diagnosis, volume_claims
from dedupe_operator.decide.diagnosis import with_advice
from dedupe_operator.decide.restore_slots import free_slots
from dedupe_operator.decide.restore_source import RestoreChoice, choose_source
from dedupe_operator.decide.volume_claims import ClaimChoice, ClaimProblem, RestoreNeed
from dedupe_operator.errors import ReportedError
from dedupe_operator.kubernetes.resources import CLAIMS
from dedupe_operator.restore_candidates import restore_candidates
from dedupe_operator.restore_volumes import RestoreVolumes, named_snapshot
from dedupe_operator.snapshots.copy_jobs import job_for
from dedupe_operator.snapshots.provider import Provider, ProviderError
from dedupe_operator.snapshots.s3 import failed_restore
from dedupe_operator.volume_events import report_problem

_REQUEUE_SECONDS: Final = 5.0
_DAMAGED: Final = "holds a damaged store, and the output topic has less than its window"
_NOT_OURS: Final = "holds the store of another stream or partition, as its worker found"


class VolumeManager:
    """Chooses claims and restore sources. `restores` makes the volumes."""

    def __init__(self, providers: Mapping[SnapshotProvider, Provider]) -> None:
        self._providers = providers
        self.restores = RestoreVolumes(providers)

    def choose(
        self,
        context: ReconcileContext,
        result: ReconcileResult,
        *,
        before_change: Callable[[], None],
    ) -> list[PartitionStatus] | None:
        """Choose the claim of every partition, into `result.claims`.

        Return the partitions as the status must record them before anything is done, None if it already does.
        `before_change` is called first if a claim changes, and may end the pass.
        """
        requests = _pending_requests(context)
        slots = free_slots(context.recorded.partitions, context.observed.pods, requests)
        for partition in context.partitions:
            request = requests.get(partition) if slots else None
            try:
                result.claims[partition] = self._choose(context, result, partition, request)
                slots -= request is not None
            except ReportedError as error:
                _postpone(context, result, partition, error)
        if not volume_intents.changed(context, result):
            return None
        before_change()
        return volume_intents.intended(context, result)

    def _choose(
        self,
        context: ReconcileContext,
        result: ReconcileResult,
        partition: int,
        request: RestoreRequest | None,
    ) -> ClaimChoice:
        recorded = context.recorded_partition(partition)
        problem = self._check_claim(context, partition)
        if recorded and problem == ClaimProblem():
            problem = self._check_store(context, recorded)
        chosen = volume_claims.choose_claim(
            context.stream.metadata.name,
            partition,
            recorded=recorded,
            live=context.observed.claims.get(partition, ()),
            class_name=context.stream.spec.storage.storage_class_name,
            output_created=context.topics.created,
            added=context.growth is not None and context.growth.is_unwritten(partition),
            now=context.now,
            request=request,
            outdated=request is not None and is_outdated(request.request, context.created),
            problem=problem,
        )
        if isinstance(chosen, ClaimChoice):
            return chosen
        if chosen.request:  # a user may ask for a copy that has failed before
            self.restores.retry(context, partition, chosen.request.source)
        source = self._choose_source(context, partition, chosen)
        choice = volume_claims.choose_restored(chosen, recorded, source, context.now)
        report_problem(context, result, partition, chosen, problem)
        return choice

    def _check_claim(self, context: ReconcileContext, partition: int) -> ClaimProblem:
        """Return what is wrong with the recorded claim or with its restore source.

        Raises ReportedError if the provider or the API server can't answer now.
        """
        recorded = context.recorded_partition(partition)
        if recorded is None or recorded.restore is None:
            return ClaimProblem()
        restore, name = recorded.restore, recorded.restore.name or ""
        if restore.source is RestoreSource.CHECKPOINT:
            failure = failed_restore(name, context.workers.get(partition))
            if failure:
                return ClaimProblem(source=failure, keep_claim=True)
        if restore.source is RestoreSource.SNAPSHOT and not _is_bound(context, recorded):
            failure = self._why_unavailable(context, partition, name)
            return ClaimProblem(source=failure or self._why_no_volume(context, recorded, name))
        if _refused_by_its_worker(context, recorded):
            return ClaimProblem(unusable=_NOT_OURS)
        return ClaimProblem()

    def _check_store(self, context: ReconcileContext, recorded: PartitionStatus) -> ClaimProblem:
        """Return that a store is damaged, if a copy is better than its rebuild.

        Its worker rebuilds it in place from the output topic. If that has less than the window, a copy from before is
        better: the partition gets a new volume from it. Raises ProviderError if a provider can't answer now.
        """
        worker = context.workers.get(recorded.partition)
        if worker is None or not diagnosis.lost_window_to_damage(worker):
            return ClaimProblem()
        pod = context.observed.pods.get(recorded.partition)
        if diagnosis.mounted_claim(pod) != recorded.persistent_volume_claim:
            return ClaimProblem()
        damaged = ClaimProblem(
            unusable=_DAMAGED,
            tried=volume_claims.tried_before(recorded.restore, "its store was damaged"),
            made_before=worker.started_at,
        )
        need = RestoreNeed(name="", reason="", tried=damaged.tried, made_before=damaged.made_before)
        source = self._choose_source(context, recorded.partition, need).source
        return ClaimProblem() if source is RestoreSource.OUTPUT_TOPIC else damaged

    def _choose_source(
        self, context: ReconcileContext, partition: int, need: RestoreNeed
    ) -> RestoreChoice:
        """Choose the restore source; query providers about a chosen copy only.

        Raises ProviderError while Kafka or a provider can't answer.
        """
        candidates = restore_candidates(context, partition, need)
        if need.request and need.request.source == OUTPUT_TOPIC:
            return RestoreChoice(source=RestoreSource.OUTPUT_TOPIC)
        if not candidates:
            wanted = need.request.snapshot if need.request else None
            refused = (f"{wanted}: there is no such DedupeSnapshot",) if wanted else ()
            return RestoreChoice(source=RestoreSource.OUTPUT_TOPIC, refused=refused)
        try:
            state = context.partition_state(partition)
        except StreamError as error:
            raise ProviderError(error.reason, str(error)) from error
        if context.growth is not None:
            state = replace(state, earlier_inputs=context.growth.epochs.earlier_inputs)
        stream = context.stream.metadata.name
        by_name = {candidate.name: candidate for candidate in candidates}
        while (choice := choose_source(list(by_name.values()), stream=stream, now=state)).name:
            unavailable = self._why_unavailable(context, partition, choice.name)
            if unavailable is None:
                return choice
            by_name[choice.name] = replace(by_name[choice.name], gone=unavailable)
        return choice

    def _why_unavailable(self, context: ReconcileContext, partition: int, name: str) -> str | None:
        """Return why a copy can't be restored from, None if it can."""
        if failure := self.restores.failure(context, partition, name):
            return failure
        snapshot = named_snapshot(context, name)
        entry = snapshot.entry(partition) if snapshot else None
        if not (snapshot and entry and snapshot.status.provider) or snapshot.deleting:
            return "it was deleted"
        job = job_for(context, snapshot, entry)
        exists = self._providers[snapshot.status.provider].exists(job)
        return None if exists else f"its copy {entry.handle} is gone, or not of this partition"

    def _why_no_volume(
        self, context: ReconcileContext, recorded: PartitionStatus, name: str
    ) -> str | None:
        """Return why a claim gets no volume from its copy; None while it may."""
        snapshot = named_snapshot(context, name)
        claim = context.observed.children.get((CLAIMS.kind, recorded.persistent_volume_claim or ""))
        if claim is None or snapshot is None or snapshot.status.provider is None:
            return None
        events = context.events.about(claim)
        return self._providers[snapshot.status.provider].failure(events, context.now)


def _pending_requests(context: ReconcileContext) -> dict[int, RestoreRequest]:
    """Return the next restore request of each partition that has one."""
    requests = restore_requests(context.stream.metadata.annotations)
    found = {}
    for partition in {request.partition for request in requests}.intersection(context.partitions):
        live = context.observed.claims.get(partition, ())
        recorded = context.recorded_partition(partition)
        if request := volume_claims.pending_request(requests, partition, recorded, live):
            found[partition] = request
    return found


def _is_bound(context: ReconcileContext, recorded: PartitionStatus) -> bool:
    claim = context.observed.children.get((CLAIMS.kind, recorded.persistent_volume_claim or ""))
    return volume_claims.is_bound(claim)


def _refused_by_its_worker(context: ReconcileContext, recorded: PartitionStatus) -> bool:
    """Return whether the worker found another partition's store on its volume."""
    pod = context.observed.pods.get(recorded.partition)
    mounted = diagnosis.mounted_claim(pod) == recorded.persistent_volume_claim
    return mounted and diagnosis.exit_code(pod) == ExitCode.IDENTITY_REFUSED


def _postpone(
    context: ReconcileContext, result: ReconcileResult, partition: int, error: ReportedError
) -> None:
    """Leave a partition unchanged: its restore source is not known yet."""
    message = f"cannot determine a restore source: {error}"
    result.partition_problems[partition] = with_advice(error.reason, message)
    result.requeue_within(_REQUEUE_SECONDS)
    volume_intents.keep_recorded(context, result, partition)
