"""One view of a stream: the object, its pods, and the status of its workers.

`status`, `reconcile` and `describe-problem` fetch it.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dedupe_crds.status.worker import WorkerStatus
from dedupe_kubectl.api import PARALLEL_CALLS, Api
from dedupe_kubectl.errors import Forbidden
from dedupe_kubectl.objects import Object, Stream, by_partition, read_stream


@dataclass(frozen=True, kw_only=True)
class StreamView:
    """The state of a stream at one moment.

    `unavailable` has a sentence for each part that the user's RBAC rights do not allow to read.
    """

    stream: Stream
    pods: Mapping[int, Object]
    workers: Mapping[int, WorkerStatus]
    unavailable: Sequence[str] = ()

    @property
    def partitions(self) -> list[int]:
        """Return the partitions in the status or with a pod, in order."""
        listed = {each.partition for each in self.stream.status.partitions}
        return sorted(listed | self.pods.keys())


def fetch_view(api: Api, namespace: str, name: str) -> StreamView:
    """Fetch a stream, its pods and the status of its workers.

    Raises:
        PluginError: the stream cannot be read. Without the rights for pods or workers the view has none.
    """
    stream = read_stream(api.stream(namespace, name))
    pods: dict[int, Object] = {}
    workers: dict[int, WorkerStatus] = {}
    unavailable = []
    try:
        pods = by_partition(api.pods(namespace, name))
        workers = _ask_workers(api, namespace, pods)
    except Forbidden as error:
        live = f"The figures are from the stream's status, rounded and not live, because {error}."
        unavailable.append(live if pods else f"Without pods and live figures: {error}")
    return StreamView(stream=stream, pods=pods, workers=workers, unavailable=unavailable)


def _ask_workers(api: Api, namespace: str, pods: Mapping[int, Object]) -> dict[int, WorkerStatus]:
    """Ask all running workers in parallel; leave out those that do not answer."""
    running = {
        partition: pod["metadata"]["name"]
        for partition, pod in pods.items()
        if (pod.get("status") or {}).get("phase") == "Running"
    }
    with ThreadPoolExecutor(PARALLEL_CALLS) as pool:
        answers = pool.map(lambda pod: api.worker_status(namespace, pod), running.values())
        statuses = zip(running, answers, strict=True)
        return {partition: status for partition, status in statuses if status is not None}
