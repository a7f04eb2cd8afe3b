"""What all children of a stream share, and what is particular to the small ones."""

from base64 import b64decode
from collections.abc import Iterable
from dataclasses import replace

import pytest

from dedupe_crds.quantity import GIB
from dedupe_crds.spec.pod import PodShape, SecretName
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import resource_of
from dedupe_operator.resources import (
    PER_PARTITION,
    PartitionInputs,
    StreamInputs,
    admin_secret,
    config_map,
    service,
    service_account,
    stateful_set,
)
from dedupe_operator.resources import SHARED as PER_STREAM
from dedupe_operator.resources import persistent_volume_claim as claim
from dedupe_operator.resources import pod_disruption_budget as disruption_budget
from dedupe_operator.resources.config_map import Config
from dedupe_operator.resources.pod_parts import PodIds
from dedupe_operator.resources.pod_template import WorkerRelease
from tests.unit.operator.objects import NAMESPACE, RELEASE, UID, stream

ORDERS = stream()
TOKEN = "t" * 43
SHARED = {
    "app.kubernetes.io/name": "dedupestream",
    "app.kubernetes.io/instance": "orders",
    "app.kubernetes.io/component": "worker",
    "app.kubernetes.io/part-of": "dedupestream",
    "app.kubernetes.io/managed-by": "dedupestream-operator",
    "dedupestream.io/stream": "orders",
}
OF_STREAM = {
    "orders-worker": [service_account.build(ORDERS), config_map.build(ORDERS)],
    "orders-admin": [admin_secret.build(ORDERS, TOKEN)],
    "orders": [disruption_budget.build(ORDERS)],
}


def set_of(partition: int = 7, *, suspend: bool = False) -> Object:
    return stateful_set.build(
        stream({"spec.suspend": suspend}),
        partition,
        claim=f"orders-{partition}-1",
        release=RELEASE,
        secrets_hash="abc",
    )


OF_PARTITION = [set_of(), service.build(ORDERS, 7)]
CLAIM = claim.build(ORDERS, 7, served=8, name="orders-7-1", live=None, size=GIB, made_from={})
ALL = [*(one for some in OF_STREAM.values() for one in some), *OF_PARTITION, CLAIM]


def of(built: Object) -> dict[str, str]:
    """The labels that tell whose it is; a claim has only those that no GitOps tool reads."""
    own = ("app.kubernetes.io/managed-by", "dedupestream.io/stream")
    return {name: SHARED[name] for name in own} if built is CLAIM else SHARED


@pytest.mark.parametrize("built", ALL, ids=lambda one: one["kind"])
def test_every_child_is_in_the_streams_namespace_with_its_labels(built: Object) -> None:
    assert built["metadata"]["namespace"] == NAMESPACE
    assert of(built).items() <= built["metadata"]["labels"].items()
    assert resource_of(built).api_version == built["apiVersion"]


@pytest.mark.parametrize("built", [*OF_PARTITION, CLAIM], ids=lambda one: one["kind"])
def test_a_partitions_children_carry_its_number(built: Object) -> None:
    assert built["metadata"]["labels"] == {**of(built), "dedupestream.io/partition": "7"}


@pytest.mark.parametrize("built", [one for one in ALL if one is not CLAIM], ids=lambda o: o["kind"])
def test_every_child_but_the_volume_is_controlled_by_the_stream(built: Object) -> None:
    assert built["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "dedupestream.io/v1alpha1",
            "kind": "DedupeStream",
            "name": "orders",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def partition_inputs(secrets_hash: str | None = "abc") -> PartitionInputs:
    return PartitionInputs(
        stream=ORDERS,
        partition=7,
        served=8,
        claim_name="orders-7-1",
        live_claim=None,
        size=GIB,
        claim_source={},
        release=RELEASE,
        secrets_hash=secrets_hash,
        config=Config("orders-worker-1", "1"),
        restore_from=None,
    )


def kinds(children: Iterable[Object | None]) -> list[str]:
    return [child["kind"] for child in children if child]


def test_what_a_pod_needs_is_applied_before_the_stateful_set_that_starts_it() -> None:
    shared = StreamInputs(stream=ORDERS, release=RELEASE, admin_token=TOKEN)
    assert kinds(build(shared) for build in PER_STREAM) == [
        "ServiceAccount",
        "ConfigMap",
        "ConfigMap",
        "Secret",
        "PodDisruptionBudget",
    ]
    assert kinds(build(partition_inputs()) for build in PER_PARTITION) == [
        "PersistentVolumeClaim",
        "Service",
        "StatefulSet",
    ]


def test_without_credentials_no_stateful_set_is_wanted() -> None:
    built = [build(partition_inputs(secrets_hash=None)) for build in PER_PARTITION]
    assert kinds(built) == ["PersistentVolumeClaim", "Service"]


def test_children_have_the_names_people_look_for() -> None:
    for name, some in OF_STREAM.items():
        for built in some:
            assert built["metadata"]["name"] == name
    assert {built["metadata"]["name"] for built in OF_PARTITION} == {"orders-7"}


def test_a_stateful_set_selects_its_own_pod_and_has_no_template_for_volumes() -> None:
    spec = set_of()["spec"]
    selector = spec["selector"]["matchLabels"]
    assert selector == {"dedupestream.io/stream": "orders", "dedupestream.io/partition": "7"}
    assert selector.items() <= spec["template"]["metadata"]["labels"].items()
    assert spec["serviceName"] == "orders-7"
    assert "volumeClaimTemplates" not in spec


def test_suspend_takes_the_replica_and_nothing_else() -> None:
    running, suspended = set_of(), set_of(suspend=True)
    assert (running["spec"]["replicas"], suspended["spec"]["replicas"]) == (1, 0)
    suspended["spec"]["replicas"] = 1
    assert suspended == running


def test_a_service_is_headless_and_answers_for_a_worker_that_is_not_ready_too() -> None:
    spec = service.build(ORDERS, 7)["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True
    assert spec["selector"] == set_of()["spec"]["selector"]["matchLabels"]
    (port,) = spec["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("http", 8080, "http")


def test_a_drained_node_takes_one_partition_at_a_time_and_never_waits_for_a_broken_one() -> None:
    spec = disruption_budget.build(ORDERS)["spec"]
    assert spec["maxUnavailable"] == 1
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert spec["selector"] == {"matchLabels": {"dedupestream.io/stream": "orders"}}


def test_the_service_accounts_token_is_not_mounted() -> None:
    assert service_account.build(ORDERS)["automountServiceAccountToken"] is False


def test_the_token_in_the_secret_is_kept() -> None:
    built = admin_secret.build(ORDERS, TOKEN)
    assert b64decode(built["data"]["token"]).decode() == TOKEN
    assert admin_secret.token(built) == TOKEN


@pytest.mark.parametrize(
    "live",
    [
        None,
        {},
        {"data": None},
        {"data": {"other": "YQ=="}},
        {"data": {"token": ""}},
        {"data": {"token": "YQ=="}},
        {"data": {"token": "not base64!"}},
        {"data": {"token": "//////////////////////////////////////////8="}},
    ],
    ids=str,
)
def test_a_token_that_will_not_do_is_replaced_by_a_random_one(live: Object | None) -> None:
    first, second = admin_secret.token(live), admin_secret.token(live)
    assert len(first) >= 32
    assert first != second


def test_a_set_shows_what_its_pods_have_of_the_operator() -> None:
    def hash_with(release: WorkerRelease) -> str:
        sets = [build(replace(partition_inputs(), release=release)) for build in PER_PARTITION]
        assert sets[-1] is not None
        return str(sets[-1]["metadata"]["annotations"]["dedupestream.io/release"])

    same = [
        RELEASE,
        replace(RELEASE, streams_at_once=3),
        replace(RELEASE, shape=PodShape(image_pull_secrets=[SecretName(name="mirror")])),
    ]
    others = [
        replace(RELEASE, version="2.0.0"),
        replace(RELEASE, image="registry.example/worker:2"),
        replace(RELEASE, ids=PodIds(run_as_user=None)),
        replace(RELEASE, shape=PodShape(labels={"team": "shop"})),
    ]
    assert len({hash_with(each) for each in same}) == 1
    assert len({hash_with(each) for each in [RELEASE, *others]}) == 5
