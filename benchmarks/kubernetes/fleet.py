"""Start times of streams on Kubernetes, and the cost of the operator.

`python -m benchmarks.kubernetes.fleet` needs a cluster with the chart; `make bench-operator` starts one. Everything is
measured from outside: readiness through the API server, memory and requests from the operator's metrics.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import click
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AdminClient,
    NewTopic,
)
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.kubernetes.results import Cost, OperatorUse, Readiness
from benchmarks.reporting.command import Recorder, console, output_option, page_option, update_pages
from benchmarks.reporting.render import OPERATOR
from dedupe_crds.spec.stream import API_VERSION, KIND
from tests.cluster import environment
from tests.cluster.chart import NAMESPACE as OPERATOR_NAMESPACE
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl, KubectlFailed, Object

FLEETS: Final = (1, 8, 32)
STREAMS: Final = (1, 20)

_REST_SECONDS: Final = 60.0
_QUIET_SECONDS: Final = 45.0  # twice the time between two reconciles of a stream at rest
_READY_SECONDS: Final = 900.0
_POLL_SECONDS: Final = 0.25
_OPERATOR: Final = "app.kubernetes.io/component=operator"
# Small volumes and small claims on the node: what is measured is the operator, not the machine's size.
_SMALL: Final = {
    "id": {"from": "Key"},
    "store": {"window": {"maxBytes": "16Mi"}},
    "storage": {"size": "32Mi", "reclaimPolicy": "Delete"},
    "worker": {"resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}},
}


class Scrape(NamedTuple):
    """The operator's metrics at one moment."""

    time: float
    reads: float
    writes: float
    memory_bytes: float


class Fleet:
    """Streams in a separate namespace."""

    def __init__(self, cluster: Environment, kubectl: Kubectl) -> None:
        self.namespace = f"bench-{uuid4().hex[:8]}"
        self._cluster = cluster
        self._kubectl = kubectl
        self._within = kubectl.within(self.namespace)
        self._admin = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap, "log_level": 0})

    def apply(self, names: Sequence[str], partitions: int) -> None:
        """Apply streams on new topics."""
        topics = [NewTopic(f"{self.namespace}-{name}", partitions, 1) for name in names]
        for created in self._admin.create_topics(topics).values():
            created.result(30)
        self._within.apply(*(self._manifest(name) for name in names))

    def change(self, names: Sequence[str]) -> None:
        """Change what every worker has to be started again for."""
        patch = {"spec": {"worker": {"tuning": {"commitInterval": "50ms"}}}}
        self._within("patch", KIND, *names, "--type=merge", "--patch", json.dumps(patch))

    def wait_until_ready(self) -> None:
        """Wait until all is ready and as the newest spec wants it. Raises TimeoutError."""
        deadline = time.monotonic() + _READY_SECONDS
        while not all(map(_is_ready, self._within.items(KIND))):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not ready after {_READY_SECONDS:.0f} s: {self.namespace}")
            time.sleep(_POLL_SECONDS)

    @contextmanager
    def living(self) -> Iterator[None]:
        """Create the namespace; delete it and its topics when the block ends."""
        self._kubectl("create", "namespace", self.namespace)
        try:
            yield
        finally:
            self._kubectl("delete", "namespace", self.namespace)
            known = self._admin.list_topics(timeout=30).topics
            ours = [name for name in known if name.startswith(self.namespace)]
            for deleted in self._admin.delete_topics(ours).values():
                deleted.result(30)

    def _manifest(self, name: str) -> Object:
        topic = f"{self.namespace}-{name}"
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": {
                **_SMALL,
                "kafka": {"bootstrapServers": self._cluster.kafka_bootstrap_in_cluster},
                "input": {"topic": topic},
                "output": {"topic": f"{topic}-clean"},
            },
        }


def measure_readiness(
    cluster: Environment, kubectl: Kubectl, partitions: int, report: Callable[[str], None]
) -> Readiness:
    """Apply a stream and wait for its workers."""
    fleet = Fleet(cluster, kubectl)
    with fleet.living():
        report(f"{partitions} partitions: waiting until they are ready")
        started = time.monotonic()
        fleet.apply(["orders"], partitions)
        fleet.wait_until_ready()
        return Readiness(partitions=partitions, seconds=time.monotonic() - started)


def measure_cost(
    cluster: Environment, kubectl: Kubectl, streams: int, report: Callable[[str], None]
) -> list[Cost]:
    """Apply streams of one partition; measure at rest, and while workers restart."""
    fleet = Fleet(cluster, kubectl)
    names = [f"orders-{number}" for number in range(streams)]
    with fleet.living():
        report(f"{streams} streams: waiting until they are ready")
        fleet.apply(names, 1)
        fleet.wait_until_ready()
        report(f"{streams} streams: coming to rest")
        before = _at_rest(kubectl)
        report(f"{streams} streams: at rest")
        time.sleep(_REST_SECONDS)
        rested = _scrape(kubectl)
        report(f"{streams} streams: rolling")
        fleet.change(names)
        fleet.wait_until_ready()
        rolled = _scrape(kubectl)
    return [
        _cost(streams, "at rest", before, rested),
        _cost(streams, "rolling", rested, rolled),
    ]


def _at_rest(kubectl: Kubectl) -> Scrape:
    """Wait until the operator stops writing after a start. Raises TimeoutError."""
    deadline = time.monotonic() + _READY_SECONDS
    before = _scrape(kubectl)
    while time.monotonic() < deadline:
        time.sleep(_QUIET_SECONDS)
        now = _scrape(kubectl)
        if now.writes == before.writes:
            return now
        before = now
    raise TimeoutError(f"the operator still writes after {_READY_SECONDS:.0f} s")


def _wait_for_leader(kubectl: Kubectl) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        try:
            _scrape(kubectl)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
        else:
            return


def _cost(streams: int, doing: str, before: Scrape, after: Scrape) -> Cost:
    return Cost(
        streams=streams,
        doing=doing,
        seconds=after.time - before.time,
        reads=after.reads - before.reads,
        writes=after.writes - before.writes,
        memory_bytes=after.memory_bytes,
    )


def _scrape(kubectl: Kubectl) -> Scrape:
    """Ask the operator that leads, through the API server."""
    pods = kubectl.within(OPERATOR_NAMESPACE).items("pods", _OPERATOR)
    for pod in pods:
        path = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{pod['metadata']['name']}:8080"
        try:
            text = kubectl("get", "--raw", f"{path}/proxy/metrics")
        except KubectlFailed:
            continue  # it stops or starts: the leader answers
        samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
        values = {one.name: one.value for one in samples if not one.labels}
        if values.get("dedupe_operator_leader") == 1:
            requests = [one for one in samples if one.name == "dedupe_operator_api_requests_total"]
            reads = sum(one.value for one in requests if one.labels["verb"] == "get")
            writes = sum(one.value for one in requests) - reads
            return Scrape(time.monotonic(), reads, writes, values["process_resident_memory_bytes"])
    raise RuntimeError("no operator leads: is the chart installed?")


def _is_ready(stream: dict[str, Any]) -> bool:
    generation = stream["metadata"]["generation"]
    told = {
        one["type"]: one
        for one in stream.get("status", {}).get("conditions", [])
        if one.get("observedGeneration") == generation
    }
    ready = told.get("Ready", {}).get("status") == "True"
    return ready and bool(told.get("Progressing", {}).get("reason") == "UpToDate")


@click.command()
@click.option("--fleets", multiple=True, type=int, default=FLEETS, help="Partitions of a stream.")
@click.option("--streams", multiple=True, type=int, default=STREAMS, help="Streams at once.")
@output_option
@page_option
def main(fleets: tuple[int, ...], streams: tuple[int, ...], output: Path, page: Path) -> None:
    """Measure on the current cluster; updates docs/performance.md."""
    recorder = Recorder(output)
    cluster = environment.current()
    kubectl = Kubectl(cluster)
    with console.status("starting") as status:
        _wait_for_leader(kubectl)
        readiness = [measure_readiness(cluster, kubectl, count, status.update) for count in fleets]
        costs = [
            cost
            for count in streams
            for cost in measure_cost(cluster, kubectl, count, status.update)
        ]
    nodes = len(kubectl.items("nodes"))
    recorder.save(OperatorUse(nodes=nodes, readiness=readiness, costs=costs))
    update_pages([OPERATOR], output, page)


if __name__ == "__main__":
    main()
