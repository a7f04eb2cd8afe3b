"""Put together what is known of each partition; diagnose those not ready.

The reconciler calls it at the end of a pass, before it writes the status. It reads Kubernetes events, nothing else.
"""

from dedupe_crds.status.stream import PartitionPhase
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide import diagnosis, volume_claims
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.partition_status import PartitionView
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.kubernetes.resources import CLAIMS


def partition_views(context: ReconcileContext, result: ReconcileResult) -> list[PartitionView]:
    """Return a view of each partition, with the problem of those not ready.

    Raises KubernetesError.
    """
    views = []
    for partition, choice in result.claims.items():
        pod, worker = context.observed.pods.get(partition), context.workers.get(partition)
        claim = context.observed.children.get((CLAIMS.kind, choice.name))
        problem = result.partition_problems.get(partition)
        at_rest = context.stream.spec.suspend or partition in context.learning
        if problem is None and not is_ready(pod) and not at_rest:
            problem = diagnosis.of_worker(worker) or _diagnose(context, partition, choice.name)
        views.append(
            PartitionView(
                partition=partition,
                claim=choice,
                pod=pod,
                worker=worker,
                problem=problem,
                suspended=context.stream.spec.suspend,
                provisioned=claim is not None or _stays_absent(context, result, partition),
                failover=result.failovers.get(partition),
                bound=volume_claims.is_bound(claim),
            )
        )
    return views


def _diagnose(context: ReconcileContext, partition: int, claim_name: str) -> Problem | None:
    """Return what Kubernetes reports about a partition that is not ready."""
    observed = context.observed
    pod = observed.pods.get(partition)
    stateful_set = observed.stateful_sets.get(partition)
    claim = observed.children.get((CLAIMS.kind, claim_name))
    if problem := diagnosis.of_claim(claim, context.events.about(claim)):
        return problem
    events = context.events.about(pod or stateful_set)
    return diagnosis.of_pod(pod, stateful_set, events, context.now)


def _stays_absent(context: ReconcileContext, result: ReconcileResult, partition: int) -> bool:
    """Return whether an absent claim was deleted, rather than not created yet.

    It stays in the status while its successor's restore source can't be determined.
    """
    recorded = context.recorded_partition(partition)
    was_to_come = recorded is not None and recorded.phase is PartitionPhase.PROVISIONING
    undecided = partition in result.undecided and not result.claims[partition].is_new
    return undecided and not was_to_come
