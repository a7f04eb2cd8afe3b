"""One view of a stream: the object, its pods, and the status of its workers.

`status`, `top`, `reconcile` and `describe-problem` fetch it.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby

from dedupe_crds.status.worker import WorkerStatus
from dedupe_kubectl.api import PARALLEL_CALLS, Api
from dedupe_kubectl.errors import Forbidden
from dedupe_kubectl.objects import Object, Stream, by_partition, read_stream, stream_of


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
    (view,) = _views(api, namespace, [stream], name)
    return view


def fetch_views(api: Api, namespace: str | None) -> list[StreamView]:
    """Fetch the streams of a namespace, or of all, in the order of their names.

    Raises:
        PluginError: the streams cannot be read. Without the rights for pods or workers the views have none.
    """
    streams = [read_stream(document) for document in api.streams(namespace, whole=True)]
    streams.sort(key=lambda stream: (stream.namespace, stream.name))
    by_namespace = groupby(streams, key=lambda stream: stream.namespace)
    return [view for within, group in by_namespace for view in _views(api, within, list(group))]


def _views(
    api: Api, namespace: str, streams: Sequence[Stream], name: str | None = None
) -> list[StreamView]:
    """Return the views of streams of one namespace; `name` selects the pods of one."""
    pods: dict[str, dict[int, Object]] = {}
    workers: dict[tuple[str, int], WorkerStatus] = {}
    unavailable = []
    try:
        found = api.pods(namespace, name)
        for stream in streams:
            own = (pod for pod in found if stream_of(pod) == stream.name)
            pods[stream.name] = by_partition(own)
        workers = _ask_workers(api, namespace, pods)
    except Forbidden as error:
        live = f"The figures are from the stream's status, rounded and not live, because {error}."
        unavailable.append(live if pods else f"Without pods and live figures: {error}")
    return [
        StreamView(
            stream=stream,
            pods=pods.get(stream.name, {}),
            workers={number: said for (of, number), said in workers.items() if of == stream.name},
            unavailable=unavailable,
        )
        for stream in streams
    ]


def _ask_workers(
    api: Api, namespace: str, pods: Mapping[str, Mapping[int, Object]]
) -> dict[tuple[str, int], WorkerStatus]:
    """Ask all running workers in parallel; leave out those that do not answer."""
    running = {
        (stream, partition): pod["metadata"]["name"]
        for stream, of_stream in pods.items()
        for partition, pod in of_stream.items()
        if (pod.get("status") or {}).get("phase") == "Running"
    }
    with ThreadPoolExecutor(PARALLEL_CALLS) as pool:
        answers = pool.map(lambda pod: api.worker_status(namespace, pod), running.values())
        statuses = zip(running, answers, strict=True)
        return {worker: status for worker, status in statuses if status is not None}
