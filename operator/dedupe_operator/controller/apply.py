"""The children of a stream, made as they are wanted: what is right already is not written."""

from dataclasses import dataclass

from dedupe_crds.status.stream import Restore, RestoreSource
from dedupe_operator.controller.context import Findings, Look
from dedupe_operator.decide import rollout
from dedupe_operator.decide import volume_expansion as growth
from dedupe_operator.decide.diagnosis import Problem, with_advice
from dedupe_operator.decide.drift import is_as_wanted, is_stamped, stamped
from dedupe_operator.decide.rollout import WorkerState
from dedupe_operator.decide.stream_status import Notice
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import (
    CLAIMS,
    PODS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    KubernetesApi,
    resource_of,
)
from dedupe_operator.kubernetes.names import CONFIG_HASH, STREAM, Object
from dedupe_operator.resources import (
    admin_secret,
    config_map,
    service,
    service_account,
    stateful_set,
)
from dedupe_operator.resources import persistent_volume_claim as claim
from dedupe_operator.resources import pod_disruption_budget as disruption_budget
from dedupe_operator.resources.pod_template import WorkerRelease
from dedupe_operator.snapshots.provider import ProviderError
from dedupe_operator.snapshots.restoring import Restorer


class NameTaken(KubernetesError):
    """An object of a name the operator needs is somebody else's."""

    def __init__(self, wanted: Object) -> None:
        metadata = wanted["metadata"]
        where = f"{wanted['kind']} {metadata['namespace']}/{metadata['name']}"
        super().__init__(
            "NameTaken",
            f"{where} is not this stream's, and is left alone: rename or remove it, or give the "
            "stream another name",
        )


@dataclass(frozen=True, slots=True)
class Applier:
    """Writes children. One partition's failure does not keep the others."""

    api: KubernetesApi
    release: WorkerRelease
    restorer: Restorer

    def apply(self, look: Look, findings: Findings) -> None:
        """Make everything as it is wanted, as far as may be now."""
        if not look.partitions:
            return
        try:
            self._apply_shared(look)
        except KubernetesError as error:
            findings.stream_problems.append(with_advice(error.reason, str(error)))
            return
        wanted: dict[int, Object] = {}
        for partition in findings.claims.keys() - findings.undecided:
            try:
                wanted[partition] = self._apply_partition(look, findings, partition)
            except KubernetesError as error:
                findings.partition_problems[partition] = with_advice(error.reason, str(error))
            except ProviderError as error:
                message = f"the volume can't be made yet: {error}"
                findings.partition_problems[partition] = with_advice(error.reason, message)
        if look.secrets_hash is not None:
            self._roll_out(look, findings, wanted)

    def _apply_shared(self, look: Look) -> None:
        """What pods mount or run as comes before them."""
        stream = look.stream
        self._ensure(look, service_account.build(stream))
        self._ensure(look, config_map.build(stream))
        self._ensure(look, admin_secret.build(stream, look.admin_token))
        self._ensure(look, disruption_budget.build(stream))

    def _apply_partition(self, look: Look, findings: Findings, partition: int) -> Object:
        """A partition's volume and address; returns its StatefulSet as wanted."""
        choice = findings.claims[partition]
        live = look.observed.children.get((CLAIMS.kind, choice.name))
        size, problem = self._claim_size(look, live)
        if problem := problem or growth.failure(live):
            findings.partition_problems[partition] = problem
        if live is None:
            source = self.restorer.source(look, partition, choice)
            size, made_from = max(size, source.least_size), source.claim_spec
        else:
            made_from = claim.origin(live, choice.restore)
        built = claim.build(
            look.stream, partition, name=choice.name, live=live, size=size, made_from=made_from
        )
        self._ensure(look, built)
        self._ensure(look, service.build(look.stream, partition))
        return stamped(
            stateful_set.build(
                look.stream,
                partition,
                claim=choice.name,
                release=self.release,
                secrets_hash=look.secrets_hash or "",
                restore_from=_bucket_snapshot(choice.restore),
            )
        )

    def _claim_size(self, look: Look, live: Object | None) -> tuple[int, Problem | None]:
        """The size to ask for, and why it is not the spec's if it is less."""
        size = look.stream.spec.storage.size
        if live is None:
            return size, None
        if not growth.is_to_grow(live, size):
            return growth.requested(live), None
        class_name = live["spec"].get("storageClassName")
        storage_class = self.api.get(STORAGE_CLASSES, None, class_name) if class_name else None
        problem = growth.refusal(live, size, storage_class)
        return (growth.requested(live) if problem else size), problem

    def _roll_out(self, look: Look, findings: Findings, wanted: dict[int, Object]) -> None:
        observed = look.observed
        states: dict[int, WorkerState] = {
            partition: rollout.worker_state(
                observed.stateful_sets.get(partition), observed.pods.get(partition), one
            )
            for partition, one in wanted.items()
        }
        changing = rollout.may_change(states)
        for partition in sorted(changing):
            try:
                self._change_worker(look, findings, wanted[partition], partition)
            except KubernetesError as error:
                findings.partition_problems[partition] = with_advice(error.reason, str(error))
        outdated = {partition for partition, state in states.items() if not state.current}
        findings.waiting = sorted(outdated - changing)
        unsettled = {partition for partition, state in states.items() if not state.settled}
        findings.unsettled = sorted(unsettled | changing)
        self._replace_stuck_pods(look, findings)
        self._replace_strays(look, findings)
        self._finish_growth(look, findings, at_rest=not outdated and not unsettled)

    def _change_worker(
        self, look: Look, findings: Findings, wanted: Object, partition: int
    ) -> None:
        try:
            self._ensure(look, wanted)
        except KubernetesError as error:
            live = look.observed.stateful_sets.get(partition)
            if error.reason != "FieldImmutable" or live is None:
                raise
            # Its pod runs on, and belongs to the new one that the next look makes.
            self.api.delete(STATEFUL_SETS, live, orphan=True)
            message = f"StatefulSet {wanted['metadata']['name']} is made anew: {error}"
            findings.notices.append(Notice(reason="StatefulSetReplaced", message=message))

    def _replace_stuck_pods(self, look: Look, findings: Findings) -> None:
        for partition, live in look.observed.stateful_sets.items():
            pod = look.observed.pods.get(partition)
            if pod is not None and rollout.is_stuck(live, pod):
                if not self._delete_pod(pod, findings, partition):
                    continue
                message = (
                    f"Pod {pod['metadata']['name']} was deleted: it is of an older revision, and not "
                    "ready, so that its StatefulSet would wait for it for ever."
                )
                findings.notices.append(Notice(reason="StuckPodReplaced", message=message))

    def _replace_strays(self, look: Look, findings: Findings) -> None:
        """Delete workers that lost their labels; a pod that is no worker is its user's to remove."""
        for partition, pod in look.observed.strays.items():
            if pod["metadata"].get("deletionTimestamp"):
                continue
            if CONFIG_HASH not in (pod["metadata"].get("annotations") or {}):
                taken = NameTaken(pod)
                findings.partition_problems[partition] = with_advice(taken.reason, str(taken))
            elif self._delete_pod(pod, findings, partition):
                message = (
                    f"Pod {pod['metadata']['name']} was deleted: somebody changed its labels, so that "
                    "it no longer was its StatefulSet's, and kept another pod away."
                )
                findings.notices.append(Notice(reason="StrayPodReplaced", message=message))

    def _finish_growth(self, look: Look, findings: Findings, *, at_rest: bool) -> None:
        """Restart one worker whose file system grows at a start only.

        One that is not ready has nothing to lose: it may be the lack of space that keeps it.
        """
        for partition, choice in findings.claims.items():
            live = look.observed.children.get((CLAIMS.kind, choice.name))
            pod = look.observed.pods.get(partition)
            if pod is None or not growth.waits_for_restart(live, pod, look.now):
                continue
            if pod["metadata"].get("deletionTimestamp") or (rollout.is_ready(pod) and not at_rest):
                continue
            if not self._delete_pod(pod, findings, partition):
                return
            findings.unsettled = sorted({*findings.unsettled, partition})
            message = f"Pod {pod['metadata']['name']} was deleted for its file system to grow."
            findings.notices.append(Notice(reason="RestartedToGrow", message=message))
            return

    def _delete_pod(self, pod: Object, findings: Findings, partition: int) -> bool:
        try:
            self.api.delete(PODS, pod)
        except KubernetesError as error:
            findings.partition_problems[partition] = with_advice(error.reason, str(error))
            return False
        return True

    def _ensure(self, look: Look, wanted: Object) -> None:
        """Apply one object unless it is as wanted. Raises KubernetesError."""
        if "annotations" not in wanted["metadata"]:
            wanted = stamped(wanted)
        metadata = wanted["metadata"]
        live = look.observed.children.get((wanted["kind"], metadata["name"]))
        if live is None:
            resource = resource_of(wanted)
            live = self.api.get(resource, metadata["namespace"], metadata["name"])
        elif live["metadata"].get("deletionTimestamp"):
            return  # it can't be kept; the look after it is gone makes another
        if live is not None and not _is_ours(live, look):
            raise NameTaken(wanted)
        if live is None:
            self.api.apply(wanted)
        elif not is_as_wanted(live, wanted):
            self._change(live, wanted)

    def _change(self, live: Object, wanted: Object) -> None:
        """Apply to this very object.

        One that was deleted meanwhile is not made again by it: that is for the look that finds it gone, which may
        want another. A claim above all: this one would come back with what it was once made from.
        """
        this_very = {**wanted["metadata"], "uid": live["metadata"]["uid"]}
        try:
            self.api.apply({**wanted, "metadata": this_very})
        except KubernetesError as error:
            if error.reason != "Conflict":
                raise


def _bucket_snapshot(restore: Restore) -> str | None:
    """The snapshot that a worker itself fills its volume from."""
    return restore.name if restore.source is RestoreSource.CHECKPOINT else None


def _is_ours(live: Object, look: Look) -> bool:
    """Whether an object is this stream's: by its label, or though somebody took that off."""
    metadata = live["metadata"]
    if (metadata.get("labels") or {}).get(STREAM) == look.stream.metadata.name:
        return True
    if look.stream.metadata.uid in {
        one.get("uid") for one in metadata.get("ownerReferences") or []
    }:
        return True
    if live["kind"] != CLAIMS.kind or not is_stamped(live):
        return False  # a name goes on record before its claim is made: by itself it proves nothing
    return metadata["name"] in {one.persistent_volume_claim for one in look.recorded.partitions}
