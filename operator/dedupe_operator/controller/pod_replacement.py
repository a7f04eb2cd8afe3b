"""Delete the pods of workers that their StatefulSets would never replace.

The applier calls it during a rollout.
"""

from dataclasses import dataclass

from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide import rollout, volume_expansion
from dedupe_operator.decide.diagnosis import with_advice
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.errors import KubernetesError, NameTaken
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import CONFIG_HASH, Object
from dedupe_operator.kubernetes.resources import CLAIMS, PODS


@dataclass(frozen=True, slots=True)
class PodReplacer:
    """Deletes pods. A refusal is the problem of that partition."""

    api: KubernetesApi

    def replace_stuck(self, context: ReconcileContext, result: ReconcileResult) -> None:
        """Delete pods of an older revision that their StatefulSet would wait for."""
        for partition, live in context.observed.stateful_sets.items():
            pod = context.observed.pods.get(partition)
            if pod is not None and rollout.is_stuck(live, pod):
                if not self._delete(pod, result, partition):
                    continue
                message = (
                    f"Pod {pod['metadata']['name']} was deleted: it has an older revision and is not "
                    "ready, so its StatefulSet would wait for it forever."
                )
                result.events.append(StreamEvent(reason="StuckPodReplaced", message=message))

    def replace_strays(self, context: ReconcileContext, result: ReconcileResult) -> None:
        """Delete worker pods that lost their labels; report a pod that is not a worker."""
        for partition, pod in context.observed.strays.items():
            if pod["metadata"].get("deletionTimestamp"):
                continue
            if CONFIG_HASH not in (pod["metadata"].get("annotations") or {}):
                taken = NameTaken(pod)
                result.partition_problems[partition] = with_advice(taken.reason, str(taken))
            elif self._delete(pod, result, partition):
                message = (
                    f"Pod {pod['metadata']['name']} was deleted: its labels were changed, so its StatefulSet "
                    "no longer owned it and could not create another pod of that name."
                )
                result.events.append(StreamEvent(reason="StrayPodReplaced", message=message))

    def restart_to_expand(
        self, context: ReconcileContext, result: ReconcileResult, *, all_ready: bool
    ) -> None:
        """Restart one worker whose file system is expanded only at a start.

        A worker that is not ready is restarted even during a rollout: a full volume may be what stops it.
        """
        for partition, choice in result.claims.items():
            live = context.observed.children.get((CLAIMS.kind, choice.name))
            pod = context.observed.pods.get(partition)
            if pod is None or not volume_expansion.needs_restart(live, pod, context.now):
                continue
            if pod["metadata"].get("deletionTimestamp") or (is_ready(pod) and not all_ready):
                continue
            if not self._delete(pod, result, partition):
                return
            result.starting = sorted({*result.starting, partition})
            message = (
                f"Pod {pod['metadata']['name']} was deleted so that its file system is expanded."
            )
            result.events.append(StreamEvent(reason="RestartedToExpandVolume", message=message))
            return

    def _delete(self, pod: Object, result: ReconcileResult, partition: int) -> bool:
        try:
            self.api.delete(PODS, pod)
        except KubernetesError as error:
            result.partition_problems[partition] = with_advice(error.reason, str(error))
            return False
        return True
