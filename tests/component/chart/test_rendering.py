"""The chart as helm renders it, without a cluster."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from charts.package import package
from dedupe_crds.manifest import parse_manifest
from dedupe_crds.openapi import CUSTOM_RESOURCES
from dedupe_crds.spec.pod import PodShape
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator import metrics as operator_metrics
from dedupe_operator.cli import main
from dedupe_operator.config import OperatorConfig
from dedupe_operator.decide.allow_list import AllowList
from dedupe_operator.resources import service as worker_service
from dedupe_operator.resources.pod_parts import PodIds
from dedupe_router import metrics as router_metrics
from dedupe_router.state import RouterState
from dedupe_worker.admin.metrics import make_registry
from dedupe_worker.status import Degraded, WorkerState
from tests.cluster.paths import CHART
from tests.component.chart.rendering import (
    NAMESPACE,
    helm,
    of_kind,
    render,
    template,
    variables,
)
from tests.component.chart.values import BY_SERVICES, MONITORED, POD, VALUES
from tests.unit.crds.manifests import MINIMAL

pytestmark = pytest.mark.proof


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


def test_names_that_yaml_takes_for_numbers_are_texts() -> None:
    objects = render(
        {
            "watch": {"namespaces": ["007"]},
            "networkPolicy": {"enabled": True},
            "priorityClassName": "1e3",
            "serviceAccount": {"name": "0"},
            "metrics": {"grafanaDashboard": {"enabled": True, "namespace": "12"}},
        }
    )
    (deployment,) = of_kind(objects, "Deployment").values()
    pod = deployment["spec"]["template"]["spec"]
    assert (pod["priorityClassName"], pod["serviceAccountName"]) == ("1e3", "0")
    assert {each["metadata"].get("namespace") for each in objects} == {NAMESPACE, "007", "12", None}
    bound = [each["subjects"] for each in objects if "subjects" in each]
    assert {each["name"] for subjects in bound for each in subjects} == {"0"}


def test_a_label_or_annotation_of_a_value_replaces_the_charts_own() -> None:
    label, policy = {"app.kubernetes.io/part-of": "data"}, {"helm.sh/resource-policy": "none"}
    container = {"kubectl.kubernetes.io/default-container": "proxy"}
    kinds = ("podMonitor", "prometheusRule", "grafanaDashboard")
    objects = render(
        {
            "metrics": {kind: {"enabled": True, "labels": label} for kind in kinds},
            "crds": {"annotations": policy},
            "podLabels": label,
            "podAnnotations": container,
        }
    )
    (deployment,) = of_kind(objects, "Deployment").values()
    pod = deployment["spec"]["template"]["metadata"]
    assert pod["annotations"] == container
    labelled = [of_kind(objects, kind) for kind in ("PodMonitor", "PrometheusRule", "ConfigMap")]
    found = [pod, *(each["metadata"] for by_name in labelled for each in by_name.values())]
    assert all(label.items() <= each["labels"].items() for each in found)
    for each in of_kind(objects, "CustomResourceDefinition").values():
        assert each["metadata"]["annotations"] == policy


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
    found = variables(render(values))
    assert found.get("DEDUPE_OPERATOR_WORKER_PROBE_PORT") == port
    assert ("A" in found) == ("extraEnv" in values)


def operator_options(values: dict[str, Any]) -> dict[str, Any]:
    """The options of the operator that the chart would start, as it reads them itself."""
    objects = render(values)
    (deployment,) = of_kind(objects, "Deployment").values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables(objects).items():
            patch.setenv(name, value)
        context = main.make_context(
            "dedupe-operator", list(container["args"]), **main.context_settings
        )
    return context.params


def test_the_operator_reads_what_the_chart_says_of_pods_and_logs() -> None:
    options = operator_options(VALUES["everything set"])
    assert options["worker_pod"] == PodShape.model_validate(POD)
    assert (options["log_level"], options["log_format"]) == ("debug", "text")
    assert options["worker_probe_port"] == 8081
    plain = operator_options({})
    assert plain["worker_pod"] == PodShape()
    assert plain["worker_ids"] == PodIds()
    assert plain["failover"] is plain["cluster_scope"] is True


@pytest.mark.parametrize(
    "ids",
    [
        {"runAsUser": None, "runAsGroup": None, "fsGroup": None},
        {"runAsUser": 1000680000, "runAsGroup": 0},
    ],
)
def test_users_and_groups_are_those_of_the_values_for_operator_and_workers(
    ids: dict[str, Any],
) -> None:
    wanted = {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532} | ids
    values = {"podIds": ids}
    assert operator_options(values)["worker_ids"] == PodIds.model_validate(wanted)
    (deployment,) = of_kind(render(values), "Deployment").values()
    security = deployment["spec"]["template"]["spec"]["securityContext"]
    fixed = {name: value for name, value in wanted.items() if value is not None}
    assert security == fixed | {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_a_service_monitor_finds_services_of_the_operator_and_of_workers() -> None:
    objects = render(BY_SERVICES)
    (service,) = of_kind(objects, "Service").values()
    operator, workers = of_kind(objects, "ServiceMonitor").values()
    selected = operator["spec"]["selector"]["matchLabels"]
    assert selected.items() <= service["metadata"]["labels"].items()
    (deployment,) = of_kind(objects, "Deployment").values()
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (expression,) = workers["spec"]["selector"]["matchExpressions"]
    stream = DedupeStream.model_validate(
        MINIMAL | {"metadata": {"name": "orders", "namespace": "shop"}}
    )
    of_worker = worker_service.build(stream, 0)
    assert of_worker["metadata"]["labels"][expression["key"]] in expression["values"]
    ports = {port["name"] for each in (service, of_worker) for port in each["spec"]["ports"]}
    assert ports == {endpoint["port"] for endpoint in workers["spec"]["endpoints"]} == {"http"}


@pytest.mark.parametrize(
    ("values", "pace"),
    [({}, "1"), ({"upgrade": {"streamsAtOnce": 3}}, "3"), ({"upgrade": None}, "1")],
    ids=["default", "three", "values of a release before it"],
)
def test_the_pace_of_an_upgrade_reaches_the_operator(values: dict[str, Any], pace: str) -> None:
    assert variables(render(values))["DEDUPE_OPERATOR_UPGRADE_STREAMS_AT_ONCE"] == pace


def test_the_memory_limit_reaches_the_operator() -> None:
    """It bounds what connections to Kafka take."""
    (deployment,) = of_kind(render({}), "Deployment").values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (memory,) = [each for each in container["env"] if each["name"].endswith("_MEMORY_BYTES")]
    assert memory["valueFrom"] == {"resourceFieldRef": {"resource": "limits.memory"}}
    option = next(each for each in main.params if each.name == "memory_bytes")
    assert memory["name"] == f"DEDUPE_OPERATOR_{option.name}".upper()


def test_what_streams_may_name_reaches_the_operator() -> None:
    allowed = {
        "images": ["registry.example/team", "other.example"],
        "bootstrapServers": ["*.kafka.example:9092"],
        "tokenEndpoints": ["https://login.example/token"],
    }
    objects = render({"allowed": allowed})
    (deployment,) = of_kind(objects, "Deployment").values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: list[OperatorConfig] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dedupe_operator.cli.run_operator", found.append)
        result = CliRunner().invoke(main, container["args"], env=variables(objects))
    assert result.exit_code == 0, result.output
    assert found[0].allowed == AllowList(
        images=tuple(allowed["images"]),
        bootstrap_servers=tuple(allowed["bootstrapServers"]),
        token_endpoints=tuple(allowed["tokenEndpoints"]),
    )


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
        ({"rbac": {"clusterScope": False}, "snapshots": {"ebs": {"enabled": True}}}, "ebs.enabled"),
        ({"networkPolicy": {"enabled": True}}, "networkPolicy.namespaces"),
        ({"networkPolicy": {"apiServerCIDRs": ["10.0.0.1"]}}, "apiServerCIDRs"),
        ({"podIds": {"runAsUser": 0}}, "runAsUser"),
        ({"metrics": MONITORED["metrics"] | BY_SERVICES["metrics"]}, "podMonitor or"),
        ({"metrics": {"prometheusRule": {"runbookUrl": "wiki: page"}}}, "runbookUrl"),
        ({"metrics": {"grafanaDashboard": {"namespace": "Grafana"}}}, "namespace"),
        ({"worker": {"pod": {"tolerations": ["disk"]}}}, "tolerations"),
        ({"worker": {"pod": {"env": [{"value": "UTC"}]}}}, "name"),
        ({"worker": {"pod": {"labels": {"tier": 1}}}}, "labels"),
        ({"extraArgs": ["--lease-name=other"]}, "extraArgs: the chart sets --lease-name"),
        ({"extraArgs": ["--identity", "here"]}, "extraArgs: the chart sets --identity"),
        ({"extraEnv": [{"name": "DEDUPE_OPERATOR_LOG_LEVEL"}]}, "extraEnv: DEDUPE_OPERATOR_LOG"),
        ({"podLabels": {"app.kubernetes.io/name": "other"}}, "/podLabels/app.kubernetes.io"),
        ({"worker": {"pod": {"nodeSelectors": {}}}}, "nodeSelectors"),
        ({"log": {"level": "loud"}}, "level"),
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
        Degraded.MISSING_IDS,
    }
    assert "dedupe_window_healthy == 0" in alerts
    assert any("dedupe_operator_input_partitions_added" in alert for alert in alerts)
    assert any("dedupe_records_without_id_total" in alert for alert in alerts)


def test_every_alert_says_what_happened_to_what_and_how_bad_it_is() -> None:
    (rule,) = of_kind(render(MONITORED), "PrometheusRule").values()
    alerts = [each for group in rule["spec"]["groups"] for each in group["rules"]]
    assert len({each["alert"] for each in alerts}) == len(alerts)
    for each in alerts:
        assert each["labels"]["severity"] in {"warning", "critical"}
        assert each["annotations"].keys() == {"summary", "description", "runbook_url"}


@pytest.fixture(name="chart_of_notes", scope="module")
def _chart_of_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the chart with its notes as an object, because helm shows none without a cluster."""
    copy = Path(shutil.copytree(CHART, tmp_path_factory.mktemp("notes") / "dedupestream"))
    notes = (copy / "templates/NOTES.txt").read_text()
    (copy / "templates/notes.yaml").write_text(
        f'{{{{- define "notes" }}}}{notes}{{{{ end -}}}}\nnotes: {{{{ include "notes" . | quote }}}}\n'
    )
    return copy


def notes_of(values: dict[str, Any], chart: Path) -> str:
    (said,) = (each["notes"] for each in render(values, chart=chart) if "notes" in each)
    assert isinstance(said, str)
    return said


def test_notes_say_what_to_do_next(chart_of_notes: Path) -> None:
    said = notes_of({"watch": {"namespaces": ["shop"]}}, chart_of_notes)
    (applied,) = re.findall(r"<<EOF\n(.*)EOF\n", said, re.DOTALL)
    assert parse_manifest(yaml.safe_load(applied), "NOTES").metadata.name == "orders"
    for step in (
        "-n dedupestream-system rollout status deployment/dedupestream-operator",
        "-n shop get dedupestreams",
        "kubectl dedupe status orders -n shop",
        "producers must use the id as the key",
        "docs/reference.md",
    ):
        assert step in said


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        ({}, ["image.repository", "worker.image.repository"]),
        ({"image": {"repository": "r/operator"}}, ["worker.image.repository"]),
        ({"worker": {"image": {"repository": "r/worker"}}}, ["image.repository"]),
        (
            {
                "image": {"repository": "r/operator"},
                "worker": {"image": {"repository": "r/worker"}},
            },
            [],
        ),
    ],
)
def test_notes_name_each_image_that_no_registry_has(
    own: dict[str, Any], missing: list[str], chart_of_notes: Path
) -> None:
    said = notes_of(own, chart_of_notes)
    assert ("No registry has" in said) == bool(missing)
    assert re.findall(r"^ +set ([a-z.]+)$", said, re.MULTILINE) == missing
