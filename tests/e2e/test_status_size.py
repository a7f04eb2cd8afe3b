"""The status of 10,000 partitions on a real API server: its objects, and a pass of the operator over them.

The streams are paused, so there are no pods; the chart's operator writes which workers are ready, with its own rights.
"""

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Final

import pytest
from kubernetes import client, config
from prometheus_client import REGISTRY

from dedupe_crds.annotations import PAUSE
from dedupe_crds.openapi import PARTITIONS_PLURAL, PLURAL
from dedupe_crds.spec.stream import API_VERSION, GROUP
from dedupe_crds.status.partitions import GROUP_SIZE
from dedupe_crds.status.stream import PartitionStatus, StreamStatus
from dedupe_operator.controller.reconciler import Reconciler
from dedupe_operator.controller.status_writer import StatusWriter
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.resources import STREAMS
from dedupe_operator.worker_client import WorkerClient
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.plugin import Plugin
from tests.support.patience import wait_for
from tests.unit.crds.manifests import changed
from tests.unit.operator.inline import kafka_parts
from tests.unit.operator.large_status import healthy
from tests.unit.operator.objects import RELEASE

PARTITIONS: Final = 10_000
OLD_PARTITIONS: Final = 1_200
"""As many as one object holds for sure."""
MOST_BYTES: Final = 1_000_000
TRIED: Final = {"orders-20261101-1200": "its copy is damaged"}


@pytest.fixture
def api(release: Environment) -> KubernetesApi:
    configuration = client.Configuration()
    config.load_kube_config(release.kubeconfig, client_configuration=configuration)
    return KubernetesApi(client.ApiClient(configuration), lambda: None)


@pytest.fixture
def paused(api: KubernetesApi, kubectl: Kubectl, namespace: str) -> Callable[[str], Object]:
    """Create a stream that the operator reconciles only in its status."""

    def create(name: str) -> Object:
        document = changed({})
        document["metadata"] = {"name": name, "annotations": {PAUSE: "true"}}
        kubectl.within(namespace).apply(document)
        raw = wait_for(lambda: observed(api, namespace, name), "the operator has seen the stream")
        assert raw is not None
        return raw

    return create


def observed(api: KubernetesApi, namespace: str, name: str) -> Object | None:
    raw = api.get(STREAMS, namespace, name)
    return raw if raw and (raw.get("status") or {}).get("conditions") else None


def counts(api: KubernetesApi, namespace: str, name: str, ready: str) -> bool:
    raw = observed(api, namespace, name) or {}
    return bool(raw["status"].get("partitionsReady") == ready)


def stored(kubectl: Kubectl, namespace: str, plural: str, name: str) -> int:
    """The bytes of an object with its managedFields."""
    return len(kubectl.raw(f"/apis/{API_VERSION}/namespaces/{namespace}/{plural}/{name}"))


def requests() -> dict[str, float]:
    """The requests of this process to the API server so far."""
    return {
        f"{sample.labels['verb']} {sample.labels['resource']}": sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "dedupe_operator_api_requests_total"
    }


def since(before: dict[str, float]) -> dict[str, int]:
    now = requests()
    return {
        each: int(now[each] - before.get(each, 0))
        for each in now
        if now[each] != before.get(each, 0)
    }


def groups(kubectl: Kubectl, namespace: str) -> dict[str, str]:
    """How many partitions of each group are ready."""
    return {
        each["metadata"]["name"]: each["status"]["partitionsReady"]
        for each in kubectl.within(namespace).items(f"{PARTITIONS_PLURAL}.{GROUP}")
    }


def test_ten_thousand_partitions_have_small_objects_and_a_pass_few_requests(
    release: Environment,
    api: KubernetesApi,
    kubectl: Kubectl,
    namespace: str,
    paused: Callable[[str], Object],
) -> None:
    raw = paused("orders")
    status = StatusWriter(api).read(raw)
    entries = [healthy(each) for each in range(PARTITIONS)]
    before, began = requests(), time.monotonic()
    assert not StatusWriter(api).write(raw, status.model_copy(update={"partitions": entries}))
    print(f"written in {time.monotonic() - began:.1f} s: {since(before)}")
    # What the operator of the chart makes of it, with its rights: there are no pods.
    counted = {
        f"orders-{first}": f"0/{GROUP_SIZE}" for first in range(GROUP_SIZE, PARTITIONS, GROUP_SIZE)
    }
    wait_for(lambda: groups(kubectl, namespace) == counted, "the operator has counted each group")
    wait_for(lambda: counts(api, namespace, "orders", f"0/{PARTITIONS}"), "and the stream")
    own = stored(kubectl, namespace, PLURAL, "orders")
    largest = max(
        stored(kubectl, namespace, PARTITIONS_PLURAL, each) for each in groups(kubectl, namespace)
    )
    print(f"the stream has {own} bytes, the largest group {largest}")
    assert max(own, largest) < MOST_BYTES

    asks, views = kafka_parts(time.monotonic)
    reconciler = Reconciler(*(api, RELEASE, WorkerClient(), asks, views), clock=time.monotonic)
    before, began = requests(), time.monotonic()
    tracemalloc.start()
    assert reconciler.reconcile(Key(namespace, "orders"))
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    asked = since(before)
    seconds = time.monotonic() - began
    print(f"a pass: {seconds:.1f} s traced, {peak >> 20} MiB, {kept >> 20} kept, {asked}")
    assert asked == {f"get {PLURAL}": 1, f"get {PARTITIONS_PLURAL}": 1, "get pods": 1}
    shown = json.loads(Plugin(release, namespace)("status", "orders", "-o", "json"))
    assert [each["partition"] for each in shown["partitions"]] == list(range(PARTITIONS))


def test_the_status_of_a_release_before_moves_to_groups_whole(
    api: KubernetesApi, kubectl: Kubectl, namespace: str, paused: Callable[[str], Object]
) -> None:
    raw = paused("old")
    status = StatusWriter(api).read_own(raw)
    entries = [with_tried(each) for each in range(OLD_PARTITIONS)]
    writer = StatusWriter(api)
    writer.write_own(raw, status.model_copy(update={"partitions": entries}))
    print(f"before: {stored(kubectl, namespace, PLURAL, 'old')} bytes")
    wait_for(lambda: len(listed(api, namespace)) == GROUP_SIZE, "the further ones have groups")
    assert stored(kubectl, namespace, PLURAL, "old") < MOST_BYTES / 5
    moved: StreamStatus = StatusWriter(api).read(api.get(STREAMS, namespace, "old") or {})
    assert [each.restore for each in moved.partitions] == [each.restore for each in entries]
    assert listed(api, namespace) == list(range(GROUP_SIZE))


def listed(api: KubernetesApi, namespace: str) -> list[int]:
    """The partitions that the stream itself lists."""
    status = (api.get(STREAMS, namespace, "old") or {})["status"]
    return [each["partition"] for each in status["partitions"]]


def with_tried(partition: int) -> PartitionStatus:
    entry = healthy(partition)
    assert entry.restore is not None
    restore = entry.restore.model_copy(update={"tried": TRIED, "request": f"r-{partition}"})
    return entry.model_copy(update={"restore": restore})
