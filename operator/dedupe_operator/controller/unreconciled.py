"""Build the status of a stream that is paused, is refused, or can't be observed.

The reconciler calls it. Its workers still run, so their pods are counted; nothing else is judged.
"""

from datetime import datetime

from dedupe_crds.status import health
from dedupe_crds.status.stream import StreamStatus
from dedupe_kafka.errors import StreamError
from dedupe_operator import metrics
from dedupe_operator.controller.observe import worker_pods
from dedupe_operator.decide import unreconciled
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.decide.stream_status import NUMBERS, STREAM_NUMBERS
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object


def paused_status(
    api: KubernetesApi, raw: Object, recorded: StreamStatus, now: datetime
) -> StreamStatus:
    """Return the status of a paused stream; what is not known any more is left out.

    Raises KubernetesError.
    """
    metadata = raw["metadata"]
    pods = worker_pods(api, metadata["namespace"], metadata["name"])
    suspended = bool(raw["spec"].get("suspend")) and not pods
    unknown = dict.fromkeys(NUMBERS)
    partitions = [
        each.model_copy(update={**unknown, "ready": is_ready(pods.get(each.partition))})
        for each in recorded.partitions
    ]
    ready = sum(each.ready for each in partitions)
    key = (metadata["namespace"], metadata["name"])
    metrics.set_ready(*key, ready=None if suspended else ready == len(partitions) > 0)
    judged = unreconciled.paused(
        generation=metadata["generation"],
        earlier=recorded.conditions,
        now=now,
        ready=None if suspended else ready,
        partitions=len(partitions),
    )
    update = {
        **dict.fromkeys(STREAM_NUMBERS),
        "conditions": judged,
        "reason": health.reason(judged),
        "partitions": partitions,
    }
    if partitions:
        update["partitions_ready"] = f"{ready}/{len(partitions)}"
    return recorded.model_copy(update=update)


def unfinished_status(
    raw: Object, recorded: StreamStatus, error: Exception, now: datetime
) -> StreamStatus:
    """Return the status of a stream whose passes all fail; all else stays."""
    metadata = raw["metadata"]
    metrics.set_ready(metadata["namespace"], metadata["name"], ready=False)
    if isinstance(error, StreamError):
        problem = Problem(reason=error.reason, message=str(error))
    else:
        message = f"{type(error).__name__}: {error}; this is a defect of the operator: see its log"
        problem = Problem(reason="OperatorFailed", message=message)
    judged = unreconciled.unfinished(
        problem, generation=metadata["generation"], earlier=recorded.conditions, now=now
    )
    update = {"conditions": judged, "reason": health.reason(judged)}
    return recorded.model_copy(update=update)


def refused_status(
    raw: Object, recorded: StreamStatus, refusal: Problem, now: datetime
) -> StreamStatus:
    """Return the status of a stream whose manifest can't be read, or is not allowed."""
    metadata = raw["metadata"]
    metrics.set_ready(metadata["namespace"], metadata["name"], ready=False)
    judged = unreconciled.refused(
        refusal, generation=metadata["generation"], earlier=recorded.conditions, now=now
    )
    update = {
        "conditions": judged,
        "reason": health.reason(judged),
        "observed_generation": metadata["generation"],
    }
    return recorded.model_copy(update=update)
