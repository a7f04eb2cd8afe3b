"""The children of the routers."""

from typing import Any

import pytest

from dedupe_operator.kubernetes.names import Object, stream_labels
from dedupe_operator.resources import (
    ROUTERS,
    RouterInputs,
    pod_disruption_budget,
    pod_template,
    router_disruption_budget,
    router_service,
    router_stateful_set,
)
from dedupe_operator.resources.config_map import Config
from tests.unit.operator.objects import NAMESPACE, RELEASE, stream

ROUTED = {"spec.repartition.partitions": 4, "spec.repartition.routers.replicas": 3}
SECURED = {"spec.kafka.configSecretRef": {"name": "orders-kafka"}}


def children(
    changes: dict[str, Any] | None = None, secrets_hash: str | None = "abc"
) -> list[Object]:
    inputs = RouterInputs(
        stream=stream(changes),
        release=RELEASE,
        secrets_hash=secrets_hash,
        config=Config("orders-router-1", "1"),
    )
    return [child for build in ROUTERS if (child := build(inputs))]


def set_of(changes: dict[str, Any] | None = None) -> Object:
    given = stream({**ROUTED, **(changes or {})})
    built = router_stateful_set.build(given, release=RELEASE, secrets_hash="abc")
    assert built is not None
    return built


def template(changes: dict[str, Any] | None = None) -> Object:
    found: Object = set_of(changes)["spec"]["template"]
    return found


def container(changes: dict[str, Any] | None = None) -> Object:
    (one,) = template(changes)["spec"]["containers"]
    found: Object = one
    return found


def annotations(changes: dict[str, Any] | None = None) -> Object:
    found: Object = template(changes)["metadata"]["annotations"]
    return found


def test_only_a_stream_with_a_repartition_has_them_and_the_pods_come_last() -> None:
    assert children() == []
    built = children(ROUTED)
    assert [each["kind"] for each in built] == ["PodDisruptionBudget", "Service", "StatefulSet"]
    assert {each["metadata"]["name"] for each in built} == {"orders-router"}


def test_without_credentials_no_pod_is_started() -> None:
    built = children(ROUTED, secrets_hash=None)
    assert [each["kind"] for each in built] == ["PodDisruptionBudget", "Service"]


def test_they_are_the_streams_own_and_have_no_partition() -> None:
    for child in children(ROUTED):
        metadata = child["metadata"]
        assert metadata["namespace"] == NAMESPACE
        assert metadata["labels"] == {
            **stream_labels("orders"),
            "app.kubernetes.io/component": "router",
        }
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["controller"]) == ("DedupeStream", True)


def test_nothing_that_selects_workers_selects_their_pods() -> None:
    labels = template()["metadata"]["labels"]
    budget = pod_disruption_budget.build(stream(ROUTED))["spec"]["selector"]["matchLabels"]
    assert not budget.items() <= labels.items()
    worker = pod_template.build(
        stream(ROUTED), 0, claim="orders-0-1", release=RELEASE, secrets_hash="abc"
    )
    (spread,) = worker["spec"]["topologySpreadConstraints"]
    assert not spread["labelSelector"]["matchLabels"].items() <= labels.items()
    assert "dedupestream.io/partition" not in labels


def test_what_selects_routers_selects_their_pods_and_no_worker() -> None:
    given = stream(ROUTED)
    service, budget = router_service.build(given), router_disruption_budget.build(given)
    assert service is not None
    assert budget is not None
    (spread,) = template()["spec"]["topologySpreadConstraints"]
    ours = {"dedupestream.io/routers-of": "orders"}
    assert service["spec"]["selector"] == ours
    assert budget["spec"]["selector"] == {"matchLabels": ours}
    assert set_of()["spec"]["selector"] == {"matchLabels": ours}
    assert spread["labelSelector"] == {"matchLabels": ours}
    assert ours.items() <= template()["metadata"]["labels"].items()
    assert budget["spec"]["maxUnavailable"] == 1


def test_all_start_at_once_and_a_suspended_stream_has_none() -> None:
    spec = set_of()["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"]) == (3, "Parallel")
    assert "volumeClaimTemplates" not in spec
    assert spec["serviceName"] == "orders-router"
    suspended = set_of({"spec.suspend": True})["spec"]
    assert suspended == {**spec, "replicas": 0}


def test_a_pod_meets_the_restricted_pod_security_standard() -> None:
    worker = pod_template.build(
        stream(ROUTED), 0, claim="orders-0-1", release=RELEASE, secrets_hash="abc"
    )["spec"]
    spec = template(SECURED)["spec"]
    for field in (
        "securityContext",
        "serviceAccountName",
        "automountServiceAccountToken",
        "enableServiceLinks",
        "terminationGracePeriodSeconds",
    ):
        assert spec[field] == worker[field]
    own = container(SECURED)
    assert own["securityContext"] == worker["containers"][0]["securityContext"]
    assert {volume["name"] for volume in spec["volumes"]} == {"config", "tmp", "kafka"}
    assert {each["name"] for each in own["volumeMounts"]} == {"config", "tmp", "kafka"}


def test_a_router_gets_its_number_from_the_pods_ordinal() -> None:
    (variable,) = container()["env"]
    assert variable["name"] == "DEDUPE_ROUTER_ROUTER"
    path = variable["valueFrom"]["fieldRef"]["fieldPath"]
    assert path == "metadata.labels['apps.kubernetes.io/pod-index']"


def test_it_runs_the_router_of_the_workers_image_with_files_that_are_mounted() -> None:
    found = container(SECURED)
    assert found["command"] == ["dedupe-router"]
    assert found["args"] == [
        "--config=/etc/dedupestream/config/stream.yaml",
        "--http=0.0.0.0:8080",
        "--probe-address=0.0.0.0:8081",
        "--kafka-properties=/etc/dedupestream/kafka/client.properties",
    ]
    assert found["image"] == RELEASE.image
    assert container({"spec.worker.image": "own:1"})["image"] == "own:1"
    assert not any("kafka-properties" in each for each in container()["args"])


def test_the_probes_have_a_port_of_their_own() -> None:
    found = container()
    ports = {each["name"]: each["containerPort"] for each in found["ports"]}
    assert ports == {"http": 8080, "probes": 8081}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert found[probe]["httpGet"]["port"] == "probes"
    assert found["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_resources_are_those_of_the_spec_and_defaults_stay_below_a_limit() -> None:
    assert container()["resources"] == {"requests": {"cpu": "50m", "memory": "256Mi"}}
    low = {"spec.repartition.routers.resources": {"limits": {"memory": "128Mi"}}}
    assert container(low)["resources"]["requests"]["memory"] == "128Mi"
    own = {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}
    assert container({"spec.repartition.routers.resources": own})["resources"] == own


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.id": {"from": "Content"}},
        {"spec.output.topic": "elsewhere"},
        {"spec.kafka.bootstrapServers": "other:9092"},
        {"spec.repartition.topic": {"maxBytes": "1Gi"}},
        {"spec.worker.tuning": {"commitInterval": "50ms"}},
    ],
    ids=str,
)
def test_a_change_of_what_a_router_reads_restarts_it(changes: dict[str, Any]) -> None:
    assert annotations(changes) != annotations()


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.repartition.routers.replicas": 9},
        {"spec.repartition.partitions": 9},
        {"spec.store.window.maxAge": "3d"},
        {"spec.storage.size": "99Gi"},
        {"spec.duplicates": {"policy": "Topic", "topic": "dups"}},
    ],
    ids=str,
)
def test_a_change_of_anything_else_restarts_none(changes: dict[str, Any]) -> None:
    assert template(changes) == template()


def test_with_a_pattern_another_side_topic_restarts_routers_as_they_must_not_read_it() -> None:
    pattern = {"spec.input": {"pattern": "orders-.*"}}
    sides = {"spec.duplicates": {"policy": "Topic", "topic": "orders-dups"}}
    assert annotations({**pattern, **sides}) != annotations(pattern)


def test_a_requested_restart_is_of_the_routers_too() -> None:
    found = annotations({"metadata.annotations": {"dedupestream.io/restart": "now"}})
    assert found["dedupestream.io/restart"] == "now"
