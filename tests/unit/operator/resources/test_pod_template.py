"""A worker's pod."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dedupe_crds.quantity import MIB, parse_size
from dedupe_local.sizing.constants import measured
from dedupe_local.sizing.rocksdb import Traffic, size
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import config_map, pod_template
from dedupe_operator.resources.pod_parts import PodDefaults
from tests.unit.crds.manifests import CONFLICTS, DUPLICATES
from tests.unit.operator.objects import RELEASE, stream

SECURED = {"spec.kafka.configSecretRef": {"name": "orders-kafka"}}
KAFKA = "/etc/dedupestream/kafka"


def build(changes: dict[str, Any] | None = None, **known: Any) -> Object:  # noqa: ANN401
    given = {"claim": "orders-3-1", "release": RELEASE, "secrets_hash": "abc", **known}
    return pod_template.build(stream(changes), 3, **given)


def container(template: Object) -> Object:
    (one,) = template["spec"]["containers"]
    found: Object = one
    return found


def test_it_meets_the_restricted_pod_security_standard() -> None:
    template = build()
    pod = template["spec"]["securityContext"]
    assert pod["runAsNonRoot"] is True
    assert pod["runAsUser"] == pod["runAsGroup"] == pod["fsGroup"] == 65532
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container(template)["securityContext"]
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    allowed = {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
    for volume in template["spec"]["volumes"]:
        assert volume.keys() - {"name"} <= allowed
    for forbidden in ("hostNetwork", "hostPID", "hostIPC"):
        assert forbidden not in template["spec"]


def test_it_has_no_rights_in_the_cluster() -> None:
    spec = build()["spec"]
    assert spec["serviceAccountName"] == "orders-worker"
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False


def test_its_arguments_name_the_partition_and_files_that_are_mounted() -> None:
    template = build(SECURED)
    arguments = dict(one.split("=", 1) for one in container(template)["args"])
    assert arguments == {
        "--config": "/etc/dedupestream/config/stream.yaml",
        "--partition": "3",
        "--state-dir": "/var/lib/dedupestream/state",
        "--fenced-file": "/tmp/fenced",  # noqa: S108 # the container's own
        "--http": "0.0.0.0:8080",
        "--admin-token-file": "/etc/dedupestream/admin/token",
        "--kafka-properties": f"{KAFKA}/client.properties",
    }
    mounted = [one["mountPath"] for one in container(template)["volumeMounts"]]
    for name in ("--config", "--state-dir", "--admin-token-file", "--kafka-properties"):
        assert any(arguments[name].startswith(f"{path}/") for path in mounted)


def test_without_a_kafka_secret_there_is_neither_its_volume_nor_its_argument() -> None:
    template = build()
    assert not any("kafka-properties" in one for one in container(template)["args"])
    assert "kafka" not in {one["name"] for one in template["spec"]["volumes"]}


@pytest.mark.parametrize("changes", [None, SECURED], ids=["plain", "secured"])
def test_every_volume_is_mounted_and_only_state_and_tmp_can_be_written(
    changes: dict[str, Any] | None,
) -> None:
    template = build(changes)
    mounts = {one["name"]: one for one in container(template)["volumeMounts"]}
    assert mounts.keys() == {one["name"] for one in template["spec"]["volumes"]}
    writable = {name for name, one in mounts.items() if not one.get("readOnly")}
    assert writable == {"state", "tmp"}


def test_its_volumes_are_the_streams() -> None:
    volumes = {one.pop("name"): one for one in build(SECURED)["spec"]["volumes"]}
    assert volumes["state"] == {"persistentVolumeClaim": {"claimName": "orders-3-1"}}
    assert volumes["config"] == {"configMap": {"name": config_map.of_workers(stream(SECURED)).name}}
    assert volumes["admin"] == {"secret": {"secretName": "orders-admin"}}
    assert volumes["kafka"] == {"secret": {"secretName": "orders-kafka"}}


def test_the_image_is_the_streams_or_the_releases() -> None:
    assert container(build())["image"] == RELEASE.image
    own = container(build({"spec.worker": {"image": "own:1"}}))
    assert (own["image"], own["imagePullPolicy"]) == ("own:1", "IfNotPresent")


def test_a_user_who_names_requests_names_all_of_them() -> None:
    assert container(build())["resources"] == {"requests": {"cpu": "50m", "memory": "1321Mi"}}
    limited = container(build({"spec.worker": {"resources": {"limits": {"memory": "1500Mi"}}}}))
    assert limited["resources"]["limits"] == {"memory": "1500Mi"}
    assert limited["resources"]["requests"] == {"cpu": "50m", "memory": "1321Mi"}
    own = container(build({"spec.worker": {"resources": {"requests": {"cpu": "1"}}}}))
    assert own["resources"] == {"requests": {"cpu": "1"}}


def with_window(size: str) -> dict[str, Any]:
    return {"spec.store.window.maxBytes": size, "spec.storage.size": "8Ti"}


@pytest.mark.parametrize(
    ("window", "memory"),
    [
        ("16Mi", "259Mi"),
        ("64Mi", "265Mi"),
        ("1Gi", "390Mi"),
        ("24Gi", "3451Mi"),
        ("1Ti", "136571Mi"),
    ],
)
def test_a_worker_requests_memory_for_the_filters_of_a_full_window(
    window: str, memory: str
) -> None:
    requests = container(build(with_window(window)))["resources"]["requests"]
    assert requests == {"cpu": "50m", "memory": memory}


@pytest.mark.parametrize("ids", [1e6, 1e8, 1e9, 60e9, 1e12])
def test_the_default_is_what_dedupe_size_calculates_for_that_window(ids: float) -> None:
    traffic = Traffic(messages_per_second=ids / 86_400, window=timedelta(days=1), partitions=16)
    planned = size(traffic, measured())
    requests = container(build(with_window(f"{planned.max_bytes // MIB}Mi")))["resources"][
        "requests"
    ]
    assert parse_size(requests["memory"]) == pytest.approx(planned.worker_memory_bytes, rel=0.06)


def table(**size: float | str) -> dict[str, Any]:
    return {"spec.store": {"type": "InverseBloom", "inverseBloom": size}}


TABLE = table(slots=100 * 2**20)


@pytest.mark.parametrize(
    ("changes", "memory"),
    [
        ({}, "2656Mi"),
        (DUPLICATES, "3256Mi"),
        (CONFLICTS, "3656Mi"),
        (table(memory="1Gi"), "1280Mi"),
        (table(messages=3_600_000, retain=0.9), "1037Mi"),
    ],
    ids=str,
)
def test_a_worker_with_a_table_asks_for_its_memory_too(
    changes: dict[str, Any], memory: str
) -> None:
    requests = container(build(TABLE | changes))["resources"]["requests"]
    assert requests == {"cpu": "50m", "memory": memory}
    own = {"spec.worker": {"resources": {"requests": {"memory": "4Gi"}}}}
    assert container(build(TABLE | changes | own))["resources"]["requests"] == {"memory": "4Gi"}


def test_no_more_memory_is_asked_for_than_a_user_allows() -> None:
    for changes, limit in (({}, "128Mi"), (TABLE, "2.5Gi")):
        limited = build(changes | {"spec.worker": {"resources": {"limits": {"memory": limit}}}})
        assert container(limited)["resources"]["requests"]["memory"] == limit


def test_a_pod_is_ready_when_its_worker_says_so() -> None:
    one = container(build())
    assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert one["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert one["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert one["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    assert one["terminationMessagePolicy"] == "FallbackToLogsOnError"


def probe_ports(template: Object) -> set[object]:
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    return {container(template)[each]["httpGet"]["port"] for each in probes}


def test_probes_have_a_port_of_their_own_if_the_workers_version_is_known() -> None:
    release = replace(RELEASE, probe_port=8081)
    template = build(release=release)
    assert probe_ports(template) == {"probes"}
    assert [(each["name"], each["containerPort"]) for each in container(template)["ports"]] == [
        ("http", 8080),
        ("probes", 8081),
    ]
    variables = {each["name"]: each["value"] for each in container(template)["env"]}
    assert variables == {"DEDUPE_WORKER_PROBE_ADDRESS": "0.0.0.0:8081"}
    assert container(template)["args"] == container(build())["args"]


def test_an_image_that_may_be_older_is_probed_at_the_port_of_its_api() -> None:
    release = replace(RELEASE, probe_port=8081)
    own = {"spec.worker": {"image": "own:1"}}
    assert probe_ports(build(own, release=release)) == {"http"}
    assert build(own, release=release) == build(own)


def test_what_a_worker_reads_once_rolls_it() -> None:
    base = build()
    assert build() == base
    for changes in (
        {"spec.mode": "Observe"},
        {"metadata.annotations": {"dedupestream.io/restart": "1"}},
    ):
        assert build(changes)["metadata"]["annotations"] != base["metadata"]["annotations"]
    assert build(secrets_hash="other") != base


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.suspend": True},
        {"spec.storage": {"size": "40Gi"}},
        {"metadata.annotations": {"unrelated": "1"}},
        {"metadata.labels": {"unrelated": "1"}},
    ],
    ids=str,
)
def test_what_a_worker_does_not_read_does_not_roll_it(changes: dict[str, Any]) -> None:
    assert build(changes) == build()


def test_workers_of_a_stream_are_spread_over_nodes_where_that_can_be() -> None:
    (spread,) = build()["spec"]["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    selected = spread["labelSelector"]["matchLabels"]
    assert selected.items() <= build()["metadata"]["labels"].items()


def test_in_several_zones_they_are_spread_over_these_too_where_that_can_be() -> None:
    release = replace(RELEASE, defaults=PodDefaults(spread_over_zones=True))
    zones, nodes = build(release=release)["spec"]["topologySpreadConstraints"]
    assert [nodes] == build()["spec"]["topologySpreadConstraints"]
    assert zones == nodes | {"topologyKey": "topology.kubernetes.io/zone"}
