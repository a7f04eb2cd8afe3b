"""One look at a stream: the stream itself, its pods, and what its workers say."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dedupe_crds.status.worker import WorkerStatus
from dedupe_kubectl.api import PARALLEL_CALLS, Api
from dedupe_kubectl.errors import Forbidden
from dedupe_kubectl.objects import Object, Stream, by_partition, read_stream


@dataclass(frozen=True, kw_only=True)
class Look:
    """All that was seen at one moment. `untold` says what the user's rights do not show."""

    stream: Stream
    pods: Mapping[int, Object]
    workers: Mapping[int, WorkerStatus]
    untold: Sequence[str] = ()

    @property
    def partitions(self) -> list[int]:
        """Every partition that is known of."""
        return sorted({one.partition for one in self.stream.status.partitions} | self.pods.keys())


def look_at(api: Api, namespace: str, name: str) -> Look:
    """Ask for all of it.

    Raises:
        PluginError: the stream can't be read. Pods and workers are left out if they can't.
    """
    stream = read_stream(api.stream(namespace, name))
    pods: dict[int, Object] = {}
    workers: dict[int, WorkerStatus] = {}
    untold = []
    try:
        pods = by_partition(api.pods(namespace, name))
        workers = _ask_workers(api, namespace, pods)
    except Forbidden as error:
        live = f"Figures are the operator's, rounded and not live, because {error}."
        untold.append(live if pods else f"Without pods and live figures: {error}")
    return Look(stream=stream, pods=pods, workers=workers, untold=untold)


def _ask_workers(api: Api, namespace: str, pods: Mapping[int, Object]) -> dict[int, WorkerStatus]:
    """All workers that run, at the same time; who does not answer is left out."""
    running = {
        partition: pod["metadata"]["name"]
        for partition, pod in pods.items()
        if (pod.get("status") or {}).get("phase") == "Running"
    }
    with ThreadPoolExecutor(PARALLEL_CALLS) as pool:
        answers = pool.map(lambda pod: api.worker_status(namespace, pod), running.values())
        told = zip(running, answers, strict=True)
        return {partition: status for partition, status in told if status is not None}
