"""A stream, its cluster, its Kafka, and an operator that looks after it."""

from collections.abc import Mapping
from typing import Final

from dedupe_crds.spec.stream import API_VERSION
from dedupe_crds.status.router import RouterStatus
from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.controller.reconciler import Reconciler
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.allow_list import AllowList
from dedupe_operator.kubernetes.names import Object, partition_of
from dedupe_operator.output_conflicts import OutputConflicts
from dedupe_operator.worker_client import WorkerClient, WorkerRefused
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.fake_growth import FakeEpochs
from tests.unit.operator.fake_kafka import FakeKafka
from tests.unit.operator.inline import FakeClock, Inline, kafka_parts
from tests.unit.operator.objects import (
    NAMESPACE,
    RELEASE,
    STREAM,
    router_status,
    worker_status,
)

KEY: Final = Key(NAMESPACE, STREAM)
CHECKPOINT: Final = {
    "path": "/state/checkpoints/1",
    "created": "2026-11-01T12:00:00Z",
    "inputOffset": 70,
    "outputPosition": 50,
    "keys": 50,
    "inputTopicId": "in",
    "outputTopicId": "out",
    "windowSeconds": 3600.0,
    "bytes": 1_500_000,
}


class FakeWorkers(WorkerClient):
    """Workers whose answers a test gives; those of ready pods are well by themselves.

    `answers` is what they say to a POST, by its path, or a function of partition and body; `asked` is what they were
    asked.
    """

    def __init__(self) -> None:
        self.say: dict[int, WorkerStatus] = {}
        self.routers_say: dict[int, RouterStatus] = {}
        self.answers: dict[str, object] = {
            "/checkpoint": CHECKPOINT,
            "/snapshots/check": {"present": True},
        }
        self.asked: list[tuple[int, str, Mapping[str, object]]] = []

    def statuses(self, pods: Mapping[int, Object]) -> dict[int, WorkerStatus | None]:
        return {
            partition: self.say.get(partition) or worker_status(partition) for partition in pods
        }

    def router_statuses(self, pods: Mapping[int, Object]) -> dict[int, RouterStatus | None]:
        return {router: self.routers_say.get(router) or router_status(router) for router in pods}

    def post(
        self, pod: Object | None, path: str, body: Mapping[str, object], admin_token: str
    ) -> object:
        assert admin_token
        if pod is None:
            raise WorkerRefused("WorkerNotRunning", "the partition has no worker")
        self.asked.append((partition_of(pod) or 0, path, body))
        answer = self.answers[path]
        if callable(answer):
            answer = answer(partition_of(pod) or 0, body)
        if isinstance(answer, WorkerRefused):
            raise answer
        return answer


class Scene:
    """One stream, as a test meets it."""

    def __init__(self, kafka: FakeKafka) -> None:
        self.cluster = FakeCluster()
        self.kafka = kafka
        self.clock = FakeClock()
        self.workers = FakeWorkers()
        self.epochs = FakeEpochs()
        self.restart_operator()

    def restart_operator(
        self,
        *,
        max_nodes_not_ready_percent: int = 50,
        failover: bool = True,
        allowed: AllowList | None = None,
    ) -> None:
        self.conflicts = OutputConflicts()
        self.lanes = Inline()
        self.asks, views = kafka_parts(self.clock, self.conflicts, self.lanes)
        self.reconciler = Reconciler(
            *(self.cluster, RELEASE, self.workers, self.asks, views),
            clock=self.clock,
            allowed=allowed or AllowList(),
            max_nodes_not_ready_percent=max_nodes_not_ready_percent,
            failover=failover,
        )

    def look(self) -> float | None:
        """One look, at a time when Kafka is asked again; clears the list of writes before."""
        self.cluster.writes.clear()
        self.clock.now += 100.0
        return self.reconciler.reconcile(KEY)

    def rest(self) -> float | None:
        """Look until nothing is written any more; the last look's wait."""
        for _ in range(20):
            wait = self.look()
            self.cluster.settle()
            if not self.cluster.writes:
                return wait
        raise AssertionError(f"never at rest: {self.cluster.writes}")

    def image(self, partition: int) -> str:
        spec = self.cluster.one("StatefulSet", f"orders-{partition}")["spec"]
        return str(spec["template"]["spec"]["containers"][0]["image"])

    def stateful_sets(self) -> list[Object]:
        return [self.cluster.one("StatefulSet", n) for n in self.cluster.names("StatefulSet")]

    def mounted_claim(self, name: str) -> str:
        """The claim that a StatefulSet's pods mount."""
        spec = self.cluster.one("StatefulSet", name)["spec"]["template"]["spec"]
        return str(spec["volumes"][0]["persistentVolumeClaim"]["claimName"])

    def claimed_size(self) -> str:
        """The size that partition 0's claim asks for."""
        claim = self.cluster.one("PersistentVolumeClaim", "orders-0-1")
        return str(claim["spec"]["resources"]["requests"]["storage"])

    def snapshot(self, name: str) -> Object:
        """A DedupeSnapshot as it stands."""
        return self.cluster.get_copy("DedupeSnapshot", name)

    def add_snapshot(self, name: str, **spec: object) -> None:
        """What a user applies."""
        self.cluster.create(
            {
                "apiVersion": API_VERSION,
                "kind": "DedupeSnapshot",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"streamRef": {"name": STREAM}, **spec},
            }
        )
