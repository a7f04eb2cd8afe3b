"""The flows that the chart's NetworkPolicies allow are those of the table in the documentation."""

from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from dedupe_operator.kubernetes.names import partition_labels, router_pod_labels
from dedupe_operator.resources import pod_parts
from tests.component.chart.rendering import NAMESPACE, Object, of_kind, render
from tests.support.tables import rows

pytestmark = pytest.mark.proof
STREAMS = "shop"
SCRAPER = {"podSelector": {"matchLabels": {"app": "prometheus"}}, "namespaceSelector": {}}
API_SERVER = "10.0.0.1"


def pod(namespace: str, labels: dict[str, str]) -> Object:
    """A pod, as policies see it."""
    return {"namespace": namespace, "labels": labels}


def labels_of(objects: list[Object], kind: str) -> dict[str, str]:
    (found,) = of_kind(objects, kind).values()
    labels: dict[str, str] = found["spec"]["template"]["metadata"]["labels"]
    return labels


def selects(selector: Object, labels: dict[str, str]) -> bool:
    """Return whether a label selector matches; it knows the operators that the chart uses."""
    for each in selector.get("matchExpressions", []):
        assert each["operator"] == "In"
        if labels.get(each["key"]) not in each["values"]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def is_peer(peer: Object, policy_namespace: str, source: Object) -> bool:
    """Return whether a source is one of a rule's peers."""
    if "ipBlock" in peer:
        network = ip_network(peer["ipBlock"]["cidr"])
        return "address" in source and ip_address(source["address"]) in network
    if "address" in source:
        return False
    if "namespaceSelector" in peer:
        labels = {"kubernetes.io/metadata.name": source["namespace"]}
        if not selects(peer["namespaceSelector"], labels):
            return False
    elif source["namespace"] != policy_namespace:
        return False
    return selects(peer.get("podSelector", {}), source["labels"])


def allows(objects: list[Object], source: Object, target: Object, port: int) -> bool:
    """Return whether the policies let traffic pass, as Kubernetes defines it."""
    names = {8080: "http", 8081: "probes"}
    policies = [
        each
        for each in objects
        if each["kind"] == "NetworkPolicy"
        and each["metadata"]["namespace"] == target["namespace"]
        and selects(each["spec"]["podSelector"], target["labels"])
    ]
    assert policies, "no policy selects the pod"
    return any(
        names[port] in {each["port"] for each in rule["ports"]}
        and any(is_peer(peer, policy["metadata"]["namespace"], source) for peer in rule["from"])
        for policy in policies
        for rule in policy["spec"].get("ingress", [])
    )


@pytest.fixture(name="values")
def _values() -> dict[str, Any]:
    network = {
        "enabled": True,
        "namespaces": [STREAMS],
        "metricsFrom": [SCRAPER],
        "apiServerCIDRs": [f"{API_SERVER}/32"],
    }
    return {"networkPolicy": network}


def test_each_flow_of_the_table_passes_and_no_other(values: dict[str, Any]) -> None:
    objects = render(values)
    targets = {
        "workers": pod(STREAMS, partition_labels("orders", 0)),
        "routers": pod(STREAMS, router_pod_labels("orders")),
        "operator": pod(NAMESPACE, labels_of(objects, "Deployment")),
    }
    sources = {
        "the operator": targets["operator"],
        "the API server": {"address": API_SERVER},
        "metrics": pod("monitoring", {"app": "prometheus"}),
        "anyone else": pod(STREAMS, {"app": "shop"}),
    }
    table = {
        (source, target, int(port)): allowed != "never"
        for source, targeted, port, allowed in rows("kubernetes.md", "Network")
        for target in targeted.split(", ")
    }
    for source, given in sources.items():
        for target, reached in targets.items():
            for port in (pod_parts.PORT, 8081):
                wanted = table.get((source, target, port), False)
                assert allows(objects, given, reached, port) is wanted, (source, target, port)


def test_by_default_every_pod_may_read_metrics_and_no_address(values: dict[str, Any]) -> None:
    del values["networkPolicy"]["metricsFrom"], values["networkPolicy"]["apiServerCIDRs"]
    objects = render(values)
    worker = pod(STREAMS, partition_labels("orders", 0))
    assert allows(objects, pod("monitoring", {}), worker, 8080)
    assert not allows(objects, {"address": API_SERVER}, worker, 8080)


def test_an_operator_of_the_same_labels_in_another_namespace_is_a_stranger(
    values: dict[str, Any],
) -> None:
    objects = render(values)
    false_operator = pod(STREAMS, labels_of(objects, "Deployment"))
    assert not allows(objects, false_operator, pod(STREAMS, partition_labels("orders", 0)), 8080)


def test_without_the_value_there_is_no_policy() -> None:
    assert of_kind(render({}), "NetworkPolicy") == {}
