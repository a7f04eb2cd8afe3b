"""Add restore requests to those of a stream, without overwriting any.

`restore` calls it. The requests are one annotation, and the operator answers each in the status of its partition.
"""

from collections.abc import Sequence
from typing import Final

from dedupe_crds.annotations import RESTORE, RestoreRequest, restore_requests, restores_text
from dedupe_kubectl.api import Api
from dedupe_kubectl.errors import Conflict, PluginError
from dedupe_kubectl.objects import Object, Stream, read_stream

_ATTEMPTS: Final = 10
# Of the scheduler, before and since Kubernetes 1.34.
_VOLUME_ELSEWHERE: Final = (
    "volume node affinity conflict",
    "didn't match PersistentVolume's node affinity",
)


def add_requests(api: Api, stream: Stream, added: Sequence[RestoreRequest]) -> None:
    """Write the requests into the stream, with those that wait.

    Raises:
        PluginError: a partition has got another request meanwhile, or the stream can't be changed.
    """
    for _ in range(_ATTEMPTS):
        text = restores_text([*pending_requests(stream), *added])
        # With the version of the object that was read: the API server refuses the change if there is a newer one.
        metadata = {"annotations": {RESTORE: text}, "resourceVersion": stream.resource_version}
        try:
            api.patch_stream(stream.namespace, stream.name, {"metadata": metadata})
        except Conflict:
            stream = read_stream(api.stream(stream.namespace, stream.name))
            refuse_while_pending(stream, [request.partition for request in added])
        else:
            return
    raise PluginError(
        f"{stream.title} was changed again before each of {_ATTEMPTS} attempts: try again"
    )


def pending_requests(stream: Stream) -> list[RestoreRequest]:
    """Return the requests for the stream's partitions that are not answered yet."""
    requests = restore_requests(stream.annotations)
    requests = [each for each in requests if stream.partition(each.partition)]
    partitions = {request.partition for request in requests}
    done = {partition: _last_answered(stream, requests, partition) for partition in partitions}
    return [each for index, each in enumerate(requests) if index > done[each.partition]]


def refuse_while_pending(stream: Stream, partitions: Sequence[int]) -> None:
    """Check that none of these partitions has a request that waits.

    Raises:
        PluginError: one has; the message says which, and how to cancel all that wait.
    """
    for earlier in pending_requests(stream):
        if earlier.partition in partitions:
            raise PluginError(
                f"the restore of partition {earlier.partition} from {earlier.source} that was requested at "
                f"{earlier.request} has not started: wait for it, or cancel all that have not started with "
                f"`kubectl annotate -n {stream.namespace} dedupestream {stream.name} {RESTORE}-`"
            )


def without_reachable_volume(pods: dict[int, Object]) -> dict[int, str]:
    """Return the scheduler's message by partition whose volume no node can reach."""
    found = {}
    for partition, pod in sorted(pods.items()):
        for condition in (pod.get("status") or {}).get("conditions") or []:
            unscheduled = condition["type"] == "PodScheduled" and condition["status"] == "False"
            message = str(condition.get("message", ""))
            if unscheduled and any(words in message for words in _VOLUME_ELSEWHERE):
                found[partition] = message
    return found


def _last_answered(stream: Stream, requests: Sequence[RestoreRequest], partition: int) -> int:
    """Return the index of the last answered request of a partition, -1 if none is."""
    status = stream.partition(partition)
    answered = status.restore.request if status and status.restore else None
    indexes = [
        index
        for index, each in enumerate(requests)
        if each.partition == partition and each.request == answered
    ]
    return max(indexes, default=-1)
