"""The chart as helm renders it, without a cluster."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from charts.package import package
from dedupe_crds.manifest import parse_manifest
from dedupe_crds.openapi import CUSTOM_RESOURCES
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator import metrics as operator_metrics
from dedupe_router import metrics as router_metrics
from dedupe_router.state import RouterState
from dedupe_worker.admin.metrics import make_registry
from dedupe_worker.status import Degraded, WorkerState
from tests.cluster.paths import CHART
from tests.component.chart.rendering import (
    NAMESPACE,
    Object,
    helm,
    of_kind,
    render,
    template,
)
from tests.unit.crds.manifests import MINIMAL

pytestmark = pytest.mark.timeout(900)  # the first of them may build helm

MONITORED = {
    "metrics": {
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "grafanaDashboard": {"enabled": True},
    }
}
VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "monitored": MONITORED,
    "two replicas in two namespaces": {
        "replicas": 2,
        "watch": {"namespaces": ["shop", "bank"]},
    },
    "everything set": MONITORED
    | {
        "replicas": 3,
        "fullnameOverride": "clean",
        "image": {"repository": "mirror.example/operator", "digest": f"sha256:{'a' * 64}"},
        "worker": {"image": {"repository": "mirror.example/worker", "tag": "2.0"}},
        "imagePullSecrets": [{"name": "mirror"}],
        "crds": {"annotations": {"team": "data"}},
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/a"}},
        "snapshots": {"ebs": {"enabled": True}},
        "priorityClassName": "high",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}],
        "podAnnotations": {"note": "a"},
        "podLabels": {"team": "data"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    },
}

STREAM_RULES = {
    ("dedupestream.io", "dedupestreams"): {"get", "list", "watch"},
    ("dedupestream.io", "dedupestreams/status"): {"get", "patch"},
    ("dedupestream.io", "dedupestreams/finalizers"): {"update"},
    ("dedupestream.io", "dedupesnapshots"): {"get", "list", "watch", "create", "patch", "delete"},
    ("dedupestream.io", "dedupesnapshots/status"): {"get", "patch"},
    ("dedupestream.io", "dedupesnapshots/finalizers"): {"update"},
    ("snapshot.storage.k8s.io", "volumesnapshots"): {"get", "list", "create", "patch", "delete"},
    ("apps", "statefulsets"): {"get", "list", "watch", "create", "patch", "delete"},
    ("", "services"): {"get", "list", "create", "patch"},
    ("", "configmaps"): {"get", "list", "create", "patch", "delete"},
    ("", "serviceaccounts"): {"get", "list", "create", "patch"},
    ("", "persistentvolumeclaims"): {"get", "list", "create", "patch"},
    ("policy", "poddisruptionbudgets"): {"get", "list", "create", "patch"},
    ("", "pods"): {"get", "list", "delete"},
    ("", "secrets"): {"get", "create", "patch"},
    ("", "events"): {"list", "create"},
}
"""All that the operator may do to streams and their children, and no more."""

CLUSTER_RULES = {
    ("storage.k8s.io", "storageclasses"): {"get"},
    ("storage.k8s.io", "volumeattachments"): {"list", "delete"},
    ("", "nodes"): {"get", "list"},
}
"""All that it may do to what belongs to no namespace, unless EBS snapshots are enabled."""


def rules_of(role: Object) -> dict[tuple[str, str], set[str]]:
    table: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                table.setdefault((group, resource), set()).update(rule["verbs"])
    return table


def test_helm_lint_has_nothing_to_say() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_archive_of_make_dist_renders_as_the_chart_does(
    values: dict[str, Any], tmp_path: Path
) -> None:
    assert render(values, chart=package(CHART, tmp_path)) == render(values)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_every_object_is_labelled_and_told_apart(values: dict[str, Any]) -> None:
    objects = render(values)
    keys = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in objects
    ]
    assert len(set(keys)) == len(keys)
    for each in objects:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "dedupestream", each["metadata"]["name"]


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_pods_meet_the_restricted_pod_security_standard(values: dict[str, Any]) -> None:
    (deployment,) = of_kind(render(values), "Deployment").values()
    pod = deployment["spec"]["template"]["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    (container,) = pod["containers"]
    assert "initContainers" not in pod
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} == container["resources"].keys()
    assert all("hostPort" not in port for port in container["ports"])
    assert all("emptyDir" in volume for volume in pod["volumes"])


def test_the_operators_rights_are_these_and_no_more() -> None:
    objects = render({})
    roles = of_kind(objects, "ClusterRole")
    assert rules_of(roles["dedupestream-operator"]) == STREAM_RULES
    assert rules_of(roles["dedupestream-operator-cluster"]) == CLUSTER_RULES
    (lease,) = of_kind(objects, "Role").values()
    assert lease["metadata"]["namespace"] == NAMESPACE
    create, use = lease["rules"]
    assert create["verbs"] == ["create"]
    assert (use["verbs"], use["resourceNames"]) == (["get", "update"], ["dedupestream-operator"])
    assert rules_of(lease).keys() == {("coordination.k8s.io", "leases")}
    assert roles.keys() == {
        "dedupestream-operator",
        "dedupestream-operator-cluster",
        "dedupestream-view",
        "dedupestream-edit",
    }
    assert of_kind(objects, "ClusterRoleBinding").keys() == {
        "dedupestream-operator",
        "dedupestream-operator-cluster",
    }


def test_only_for_ebs_may_the_operator_make_volumes() -> None:
    roles = of_kind(render({"snapshots": {"ebs": {"enabled": True}}}), "ClusterRole")
    more = {("", "persistentvolumes"): {"get", "create", "patch"}}
    assert rules_of(roles["dedupestream-operator-cluster"]) == CLUSTER_RULES | more


@pytest.mark.parametrize(("percent", "passed"), [(50, []), (80, ["80"])])
def test_the_share_of_nodes_that_may_be_out_is_the_operators(
    percent: int, passed: list[str]
) -> None:
    rendered = render({"failover": {"maxNodesNotReadyPercent": percent}})
    (deployment,) = of_kind(rendered, "Deployment").values()
    env = deployment["spec"]["template"]["spec"]["containers"][0].get("env", [])
    found = [one["value"] for one in env if "MAX_NODES_NOT_READY_PERCENT" in one["name"]]
    assert found == passed


def test_an_operator_leaves_a_node_that_is_out_within_seconds() -> None:
    (deployment,) = of_kind(render({}), "Deployment").values()
    told = {
        one["key"]: one["tolerationSeconds"]
        for one in deployment["spec"]["template"]["spec"]["tolerations"]
    }
    taints = ("not-ready", "unreachable")
    assert told == {f"node.kubernetes.io/{taint}": 10 for taint in taints}


def test_watched_namespaces_are_the_only_ones_the_operator_may_touch() -> None:
    objects = render({"watch": {"namespaces": ["shop", "bank"]}})
    assert of_kind(objects, "ClusterRoleBinding").keys() == {"dedupestream-operator-cluster"}
    bound = {
        each["metadata"]["namespace"]
        for each in objects
        if each["kind"] == "RoleBinding" and each["roleRef"]["name"] == "dedupestream-operator"
    }
    assert bound == {"shop", "bank"}
    (deployment,) = of_kind(objects, "Deployment").values()
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [one for one in arguments if one.startswith("--namespace")] == [
        "--namespace=shop",
        "--namespace=bank",
    ]


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_every_binding_names_a_role_of_the_chart_and_the_operators_account(
    values: dict[str, Any],
) -> None:
    objects = render(values)
    (account,) = of_kind(objects, "ServiceAccount")
    (deployment,) = of_kind(objects, "Deployment").values()
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == account
    for each in objects:
        if each["kind"].endswith("Binding"):
            assert each["roleRef"]["name"] in of_kind(objects, each["roleRef"]["kind"])
            subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
            assert each["subjects"] == [subject]


def test_users_of_a_namespace_may_use_its_streams_as_their_role_says() -> None:
    roles = of_kind(render({}), "ClusterRole")
    aggregate = "rbac.authorization.k8s.io/aggregate-to-"
    view, edit = roles["dedupestream-view"], roles["dedupestream-edit"]
    assert {f"{aggregate}{role}" for role in ("view", "edit", "admin")} <= view["metadata"][
        "labels"
    ].keys()
    assert f"{aggregate}view" not in edit["metadata"]["labels"]
    for kind in ("dedupestreams", "dedupesnapshots"):
        seen = {("dedupestream.io", kind): {"get", "list", "watch"}}
        status = {("dedupestream.io", f"{kind}/status"): {"get"}}
        assert (seen | status).items() <= rules_of(view).items()
        changes = {"create", "update", "patch", "delete", "deletecollection"}
        assert rules_of(edit)["dedupestream.io", kind] == changes
    assert len(rules_of(view)) == 4
    assert len(rules_of(edit)) == 2
    assert not of_kind(render({"userRoles": {"create": False}}), "ClusterRole").keys() & {
        "dedupestream-view",
        "dedupestream-edit",
    }


def test_the_definitions_come_with_the_chart_and_outlive_it() -> None:
    definitions = of_kind(render({}), "CustomResourceDefinition")
    wanted = [resource.definition() for resource in CUSTOM_RESOURCES]
    assert definitions.keys() == {each["metadata"]["name"] for each in wanted}
    for each in wanted:
        definition = definitions[each["metadata"]["name"]]
        assert definition["spec"] == each["spec"]
        assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    without = render({"crds": {"install": False}})
    assert of_kind(without, "CustomResourceDefinition") == {}


def test_a_budget_only_where_one_can_go() -> None:
    assert of_kind(render({}), "PodDisruptionBudget") == {}
    assert of_kind(render({"replicas": 2}), "PodDisruptionBudget").keys() == {
        "dedupestream-operator"
    }


def test_images_follow_the_charts_version_unless_told_otherwise() -> None:
    def images(values: dict[str, Any]) -> tuple[str, str]:
        (deployment,) = of_kind(render(values), "Deployment").values()
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        return container["image"], container["args"][0].removeprefix("--worker-image=")

    assert images({}) == ("dedupestream/operator:0.1.0", "dedupestream/worker:0.1.0")
    assert images(VALUES["everything set"]) == (
        f"mirror.example/operator@sha256:{'a' * 64}",
        "mirror.example/worker:2.0",
    )


@pytest.mark.parametrize(
    ("values", "port"),
    [
        ({}, "8081"),
        ({"image": {"tag": "x"}, "worker": {"image": {"tag": "x"}}}, "8081"),
        ({"image": {"tag": "x"}}, None),
        ({"worker": {"image": {"tag": "0.0.9"}}}, None),
        ({"worker": {"image": {"digest": f"sha256:{'b' * 64}"}}}, None),
        ({"extraEnv": [{"name": "A", "value": "b"}]}, "8081"),
    ],
)
def test_workers_have_a_probe_port_if_they_are_the_operators_version(
    values: dict[str, Any], port: str | None
) -> None:
    (deployment,) = of_kind(render(values), "Deployment").values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container.get("env", [])}
    assert variables.get("DEDUPE_OPERATOR_WORKER_PROBE_PORT") == port
    assert ("A" in variables) == ("extraEnv" in values)


def test_the_probes_ask_what_the_operator_answers() -> None:
    (deployment,) = of_kind(render({}), "Deployment").values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    live, ready = container["livenessProbe"], container["readinessProbe"]
    assert live["httpGet"] == {"path": "/healthz", "port": "http"}
    assert live["periodSeconds"] * live["failureThreshold"] >= 180
    assert ready["httpGet"] == {"path": "/readyz", "port": "http"}


@pytest.mark.parametrize(
    ("values", "against"),
    [
        ({"replica": 2}, "replica"),
        ({"image": {"name": "x"}}, "name"),
        ({"watch": {"namespaces": "shop"}}, "namespaces"),
        ({"watch": {"namespaces": ["Shop"]}}, "namespaces"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"metrics": {"podMonitor": {"interval": "often"}}}, "interval"),
        ({"resources": {"request": {}}}, "request"),
        ({"snapshots": {"ebs": {"enabled": "yes"}}}, "enabled"),
        ({"metrics": {"prometheusRule": {"checkpointAgeHours": 2}}}, "checkpointAgeHours"),
        ({"serviceAccount": {"create": False}}, "name an existing ServiceAccount"),
    ],
    ids=lambda part: part if isinstance(part, str) else None,
)
def test_bad_values_are_refused_by_name(values: dict[str, Any], against: str) -> None:
    done = template(values)
    assert done.returncode != 0
    assert against in done.stderr


def monitoring() -> tuple[list[str], list[str]]:
    """The expressions of the alerts, and of the dashboard."""
    objects = render(MONITORED)
    (rule,) = of_kind(objects, "PrometheusRule").values()
    alerts = [each["expr"] for group in rule["spec"]["groups"] for each in group["rules"]]
    (config,) = of_kind(objects, "ConfigMap").values()
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = config["data"].values()
    panels = json.loads(text)["panels"]
    return alerts, [target["expr"] for panel in panels for target in panel.get("targets", [])]


def samples_of(registry: CollectorRegistry) -> set[str]:
    """The names a registry's families have as samples, those without a sample yet included."""
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {
        family.name + ending
        for family in registry.collect()
        for ending in endings.get(family.type, ("",))
    }


def known_metrics() -> set[str]:
    worker_state = WorkerState(DedupeStream.model_validate(MINIMAL), 0)
    workers = samples_of(make_registry(worker_state))
    router_state = RouterState(DedupeStream.model_validate(MINIMAL), 0)
    routers = samples_of(router_metrics.make_registry(router_state))
    # These are there once there is something to tell.
    later = {
        "dedupe_lag_messages",
        "dedupe_checkpoint_timestamp_seconds",
        "dedupe_snapshot_uploaded_bytes",
        "dedupe_restore_bytes",
        "dedupe_catch_up_remaining_offsets",
        "dedupe_router_held_bytes",
    }
    return workers | routers | later | samples_of(operator_metrics.registry) | {"up"}


def test_alerts_and_dashboard_ask_only_for_metrics_that_exist() -> None:
    alerts, panels = monitoring()
    assert len(alerts) >= 20
    assert len(panels) >= 35
    for expression in alerts + panels:
        bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\bby \([^)]*\)|\bon \([^)]*\)", "", expression)
        named = set(re.findall(r"\b(?:dedupe_|process_)\w+|\bup\b", bare))
        assert named, expression
        assert named <= known_metrics(), expression


def test_every_degraded_reason_of_a_worker_has_an_alert() -> None:
    alerts, _ = monitoring()
    (left_out,) = re.findall(r'dedupe_degraded\{reason!~"([\w|]+)"\} == 1', " ".join(alerts))
    assert set(left_out.split("|")) == {
        Degraded.WINDOW_SHORTENED,
        Degraded.INPUT_PARTITIONS_ADDED,
    }
    assert "dedupe_window_healthy == 0" in alerts
    assert any("dedupe_operator_input_partitions_added" in alert for alert in alerts)


def test_every_alert_says_what_happened_to_what_and_how_bad_it_is() -> None:
    (rule,) = of_kind(render(MONITORED), "PrometheusRule").values()
    alerts = [each for group in rule["spec"]["groups"] for each in group["rules"]]
    assert len({each["alert"] for each in alerts}) == len(alerts)
    for each in alerts:
        assert each["labels"]["severity"] in {"warning", "critical"}
        assert each["annotations"].keys() == {"summary", "description", "runbook_url"}


def test_notes_say_what_to_do_next(tmp_path: Path) -> None:
    # Without a cluster helm shows no notes, so they are rendered as an object of a copy.
    copy = Path(shutil.copytree(CHART, tmp_path / "dedupestream"))
    notes = (copy / "templates/NOTES.txt").read_text()
    (copy / "templates/notes.yaml").write_text(
        f'{{{{- define "notes" }}}}{notes}{{{{ end -}}}}\nnotes: {{{{ include "notes" . | quote }}}}\n'
    )
    values = {"watch": {"namespaces": ["shop"]}}
    (said,) = (each["notes"] for each in render(values, chart=copy) if "notes" in each)
    (applied,) = re.findall(r"<<EOF\n(.*)EOF\n", said, re.DOTALL)
    assert parse_manifest(yaml.safe_load(applied), "NOTES").metadata.name == "orders"
    for step in (
        "-n dedupestream-system rollout status deployment/dedupestream-operator",
        "-n shop get dedupestreams",
        "kubectl dedupe status orders -n shop",
        "docs/reference.md",
    ):
        assert step in said
