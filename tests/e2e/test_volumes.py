"""Volumes: they outlive their stream or go with it, as it says, and they grow."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from dedupe_crds.status.stream import ConditionStatus
from tests.e2e.support.kubectl import Kubectl, KubectlFailed, Object
from tests.e2e.support.operators import chart_at_rest
from tests.e2e.support.stream import KIND, ClusterStream
from tests.faults.seed import SEED
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., ClusterStream]

COUNT = 300
CLAIMS = "persistentvolumeclaims"
CHILDREN = "statefulsets,pods,services,configmaps,secrets,serviceaccounts,poddisruptionbudgets"
RETAIN = {"size": "128Mi", "reclaimPolicy": "Retain"}
STATE = "/var/lib/dedupestream"


@pytest.fixture
def fixed_size_class(kubectl: Kubectl) -> Iterator[str]:
    """A StorageClass like the default one, but that its volumes stay as they are."""
    [default] = [
        one
        for one in kubectl.items("storageclasses")
        if one["metadata"].get("annotations", {}).get("storageclass.kubernetes.io/is-default-class")
        == "true"
    ]
    name = f"fixed-size-{uuid4().hex[:6]}"
    copied = ("apiVersion", "kind", "provisioner", "parameters", "volumeBindingMode")
    kubectl.apply(
        {
            **{field: default[field] for field in copied if field in default},
            "metadata": {"name": name},
            "allowVolumeExpansion": False,
        }
    )
    yield name
    kubectl("delete", "storageclass", name)


@pytest.mark.alone
def test_volumes_that_are_not_kept_go_with_their_stream_also_without_an_operator(
    streams: CreateStream, kubectl: Kubectl
) -> None:
    first, second = streams(), streams()
    for stream in (first, second):
        stream.apply()
    for stream in (first, second):
        stream.wait_until_ready()

    first.delete()
    wait_until_nothing_is_left(first)
    with chart_at_rest(kubectl):
        second.delete()
        wait_until_nothing_is_left(second)


@pytest.mark.matrix  # tests/unit/operator/controller/test_reconcile_volumes.py
def test_storage_grows_where_its_class_lets_it_and_says_why_where_not(
    streams: CreateStream, fixed_size_class: str
) -> None:
    growing = streams()
    fixed = streams(
        storage={
            "size": "128Mi",
            "reclaimPolicy": "Delete",
            "storageClassName": fixed_size_class,
        }
    )
    for stream in (growing, fixed):
        stream.apply()
    for stream in (growing, fixed):
        stream.wait_until_ready()
    before = file_system_bytes(growing)

    for stream in (growing, fixed):
        stream.patch(storage={"size": "192Mi"})
    told = fixed.wait_for_condition("Degraded", reason="VolumeExpansionNotAllowed")
    growing.wait_until(
        lambda: file_system_bytes(growing) > before + (48 << 20),
        "its file system has grown",
    )

    assert fixed_size_class in told.message
    assert "allowVolumeExpansion" in told.message
    fixed.wait_until_ready()
    refusal = growing.kubectl.refused(
        "patch",
        KIND,
        growing.name,
        "--type=merge",
        "--patch",
        '{"spec":{"storage":{"size":"160Mi"}}}',
    )
    assert "volumes only grow" in refusal
    growing.wait_until_rolled_out()
    for stream in (growing, fixed):
        stream.send(retries(SEED, COUNT))
        stream.judged()


def test_a_namespace_that_is_deleted_with_streams_in_it_goes_away(
    streams: CreateStream, kubectl: Kubectl, namespace: str
) -> None:
    running, kept, suspended = streams(), streams(storage=RETAIN), streams(suspend=True)
    for stream in (running, kept, suspended):
        stream.apply()
    streams().apply(input={"topic": "nowhere"})
    for stream in (running, kept):
        stream.wait_until_ready()
    suspended.wait_for_condition("Ready", ConditionStatus.FALSE, reason="Suspended")

    kubectl.remove("namespace", namespace)


def wait_until_nothing_is_left(stream: ClusterStream) -> None:
    stream.wait_until(lambda: not stream.children(f"{CHILDREN},{CLAIMS}"), "nothing of it is left")


def file_system_bytes(stream: ClusterStream) -> int:
    """The size of the file system that its first worker has its store on; 0 while it starts."""
    program = f"import os; s = os.statvfs('{STATE}'); print(s.f_frsize * s.f_blocks)"
    pod: Object | None = stream.kubectl.find("pod", stream.pod_name(0))
    ready = [one["ready"] for one in (pod or {}).get("status", {}).get("containerStatuses", [])]
    if ready != [True]:
        return 0
    try:
        return int(stream.kubectl("exec", stream.pod_name(0), "--", "python", "-c", program))
    except KubectlFailed:
        return 0  # it has gone since
