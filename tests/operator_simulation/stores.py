"""The simulated world without its API objects: topics, volumes, copies and processes.

A store is the stretch of output positions whose ids it has. What a store lacks at its old end is gone for ever once the
output topic has lost the records too; what it lacks at its new end a worker reads from the topic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.router import RouterStatus
from dedupe_crds.status.worker import DownloadPhase, DownloadStatus, WorkerStatus
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.offsets import PartitionState
from dedupe_operator.kubernetes.names import Object, partition_of
from dedupe_operator.worker_client import WorkerClient, WorkerRefused
from tests.unit.operator.fake_kafka import FakeKafka
from tests.unit.operator.objects import NOW, worker_status


@dataclass(frozen=True, slots=True)
class Store:
    """The ids of the output positions from `oldest` up to `end`."""

    partition: int
    oldest: int
    end: int


@dataclass(slots=True)
class Volume:
    """A PersistentVolume; `store` is None while no worker has started on it."""

    claim_uid: str
    capacity: str
    store: Store | None = None


@dataclass(slots=True)
class Process:
    """A worker's process. It may outlive its pod on a node that is cut off.

    `bucket` is that of the manifest that it read at its start.
    """

    pod: str
    node: str
    partition: int
    volume: str
    started: datetime
    bucket: str = ""
    ready: bool = False
    download_failed: str | None = None


@dataclass(slots=True)
class Copy:
    """A copy in a bucket, or a VolumeSnapshot's content. `ready`: it can be restored from."""

    store: Store
    made: datetime
    ready: bool = False


@dataclass
class SimKafka(FakeKafka):
    """Topics whose output grows and expires."""

    ends: dict[int, int] = field(default_factory=dict)
    lows: dict[int, int] = field(default_factory=dict)

    def partition_state(self, stream: DedupeStream, partition: int) -> PartitionState:
        state = super().partition_state(stream, partition)
        low, end = self.lows.get(partition, 0), self.ends.get(partition, 0)
        return replace(state, low=low, end=end)


def no_answer() -> BrokerUnavailable:
    """Return the error of a Kafka that does not answer."""
    return BrokerUnavailable("simulated: no broker answers")


@dataclass
class Matter:
    """All volumes, copies and processes; keys are names of volumes, or UIDs of objects.

    `buckets` are keyed by bucket, partition and snapshot; `denied` are those that the workers may not use, since when.
    """

    kafka: SimKafka
    volumes: dict[str, Volume] = field(default_factory=dict)
    attached: dict[str, str] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    copies: dict[str, Copy] = field(default_factory=dict)
    buckets: dict[tuple[str, int, str], Copy] = field(default_factory=dict)
    denied: dict[str, datetime] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)

    def start_store(
        self, volume: Volume, partition: int, restore_from: tuple[str, str] | None
    ) -> str | None:
        """Open a volume's store, or fill it; return why that failed, None if it did not.

        `restore_from` are a bucket and the snapshot in it.
        """
        low, end = self.kafka.lows.get(partition, 0), self.kafka.ends.setdefault(partition, 0)
        store = volume.store
        if store is None and restore_from is not None:
            bucket, name = restore_from
            copy = self.buckets.get((bucket, partition, name))
            if copy is None or bucket in self.denied:
                return f"{name} is not in bucket {bucket}"
            store = copy.store
        if store is None or store.end < low:
            store = Store(partition, low, end)
        assert store.partition == partition, f"partition {partition} got the store of {store}"
        volume.store = replace(store, end=end)
        return None

    def work(self) -> None:
        """Let each ready worker pass records on."""
        for process in self.processes.values():
            volume = self.volumes[process.volume]
            if process.ready and volume.store:
                end = self.kafka.ends[process.partition] = self.kafka.ends[process.partition] + 7
                volume.store = replace(volume.store, end=end)


class SimWorkers(WorkerClient):
    """The HTTP API of the processes that run."""

    def __init__(self, matter: Matter, cut_off: Mapping[str, datetime]) -> None:
        self._matter = matter
        self._cut_off = cut_off
        self.now = NOW

    def statuses(self, pods: Mapping[int, Object]) -> dict[int, WorkerStatus | None]:
        return {partition: self._state(partition, pod) for partition, pod in pods.items()}

    def router_statuses(self, pods: Mapping[int, Object]) -> dict[int, RouterStatus | None]:
        return dict.fromkeys(pods)

    def post(
        self, pod: Object | None, path: str, body: Mapping[str, object], admin_token: str
    ) -> object:
        assert admin_token
        process = self._process(pod)
        if pod is None or process is None or not process.ready:
            raise WorkerRefused("WorkerNotReachable", "simulated: the worker does not answer")
        partition = partition_of(pod) or 0
        store = self._matter.volumes[process.volume].store
        assert store is not None
        if path == "/checkpoint":
            return _checkpoint(store, self.now)
        location = body.get("location", {"bucket": process.bucket})
        assert isinstance(location, dict)
        bucket = str(location["bucket"])
        if bucket in self._matter.denied:
            raise WorkerRefused("BucketRefused", f"simulated: no access to {bucket}")
        if path == "/snapshots":
            return self._upload(bucket, partition, str(body["name"]), store)
        if path == "/snapshots/check":
            return {"present": (bucket, partition, body["name"]) in self._matter.buckets}
        assert path == "/snapshots/delete", path
        names = body["names"]
        assert isinstance(names, list)
        for name in names:
            self._matter.buckets.pop((bucket, partition, name), None)
        return {}

    def _upload(self, bucket: str, partition: int, name: str, store: Store) -> object:
        copy = self._matter.buckets.get((bucket, partition, name))
        if copy is None:
            copy = self._matter.buckets[bucket, partition, name] = Copy(store, self.now)
        elif copy.made < self.now:
            copy.ready = True
        return {
            "name": name,
            "phase": "Completed" if copy.ready else "Running",
            "checkpoint": _checkpoint(copy.store, copy.made),
            "handle": f"{partition}/{name}",
        }

    def _process(self, pod: Object | None) -> Process | None:
        process = self._matter.processes.get(pod["metadata"]["uid"]) if pod else None
        if process is None or process.node in self._cut_off:
            return None
        return None if process.partition in self._matter.silent else process

    def _state(self, partition: int, pod: Object) -> WorkerStatus | None:
        process = self._process(pod)
        if process is None:
            return None
        status = worker_status(partition)
        if process.download_failed is None:
            return status
        name, _, error = process.download_failed.partition(" ")
        failed = DownloadStatus(name=name, phase=DownloadPhase.FAILED, error=error)
        return status.model_copy(update={"ready": False, "download": failed})


def _checkpoint(store: Store, made: datetime) -> Object:
    return {
        "path": "/state/checkpoints/1",
        "created": made.isoformat(),
        "inputOffset": store.end,
        "outputPosition": store.end,
        "keys": store.end - store.oldest,
        "inputTopicId": "in",
        "outputTopicId": "out",
        "windowSeconds": 3600.0,
        "bytes": 1_500_000,
    }
