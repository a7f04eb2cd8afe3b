"""Build what the pods of workers and of routers share: security, probes, mounts.

`pod_template` and `router_stateful_set` call it. Invariant: what it returns is part of the workers' pod templates, so a
change of it restarts all workers.
"""

from dataclasses import dataclass
from typing import Final

from dedupe_crds.base import Model
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import ZONE, Object
from dedupe_operator.resources import config_map, service_account

PORT: Final = 8080
KAFKA_MOUNT: Final = "/etc/dedupestream/kafka"
PROPERTIES_KEY: Final = "client.properties"
CONFIG_MOUNT: Final = "/etc/dedupestream/config"
_NODE: Final = "kubernetes.io/hostname"
_GRACE_SECONDS: Final = 30

CONFIG_ARGUMENT: Final = f"--config={CONFIG_MOUNT}/{config_map.MANIFEST_KEY}"
HTTP_ARGUMENT: Final = f"--http=0.0.0.0:{PORT}"


class PodIds(Model):
    """User and groups of pods; None: the platform assigns it, as OpenShift does."""

    run_as_user: int | None = 65532
    run_as_group: int | None = 65532
    fs_group: int | None = 65532


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaults:
    """Defaults that differ between versions and clusters: pods keep theirs.

    `memory_by_window`: a worker requests memory for a full window. `spread_over_zones`: pods are spread over the zones
    too, which only a cluster has whose nodes all have the label.
    """

    memory_by_window: bool = True
    spread_over_zones: bool = False


def pod_spec(
    stream: DedupeStream, *, siblings: dict[str, str], ids: PodIds, defaults: PodDefaults
) -> Object:
    """Return the fields of a pod's spec without its containers and volumes.

    `siblings` are the labels of the pods that are spread: a stream's, of which each partition has a StatefulSet.
    """
    topologies = [ZONE] * defaults.spread_over_zones + [_NODE]
    return {
        "serviceAccountName": service_account.name(stream.metadata.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": _pod_security(ids),
        "topologySpreadConstraints": [_spread_over(each, siblings) for each in topologies],
    }


def container_security() -> Object:
    """Return a container's security context."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def probes(port: str) -> Object:
    """Return the probes of a container, at one of its ports."""
    return {
        "startupProbe": _probe("/healthz", port, period_seconds=1, failures=120),
        "livenessProbe": _probe("/healthz", port, period_seconds=10, failures=6),
        "readinessProbe": _probe("/readyz", port, period_seconds=2, failures=3),
    }


def ports(probe_port: int | None) -> list[Object]:
    """Return the ports of a container."""
    numbers = {"http": PORT} | ({"probes": probe_port} if probe_port else {})
    return [{"name": n, "containerPort": port, "protocol": "TCP"} for n, port in numbers.items()]


def kafka_arguments(stream: DedupeStream) -> list[str]:
    """Return the argument that names the Kafka credentials, if the stream has any."""
    return [f"--kafka-properties={KAFKA_MOUNT}/{PROPERTIES_KEY}"] * _secured(stream)


def mount(name: str, path: str) -> Object:
    """Return the mount of a volume that can't be written."""
    return {"name": name, "mountPath": path, "readOnly": True}


def config_mount() -> Object:
    """Return the mount of the manifest."""
    return mount(config_map.VOLUME, CONFIG_MOUNT)


def kafka_mounts(stream: DedupeStream) -> list[Object]:
    """Return the mount of the Kafka credentials, if the stream has any."""
    return [mount("kafka", KAFKA_MOUNT)] * _secured(stream)


def tmp_mount() -> Object:
    """Return the mount of /tmp, the container's own, in memory."""
    return {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108


def config_volume(name: str) -> Object:
    """Return the volume with the manifest, from the ConfigMap of this name."""
    return {"name": config_map.VOLUME, "configMap": {"name": name}}


def kafka_volumes(stream: DedupeStream) -> list[Object]:
    """Return the volume with the Kafka credentials, if the stream has any."""
    reference = stream.spec.kafka.config_secret_ref
    return [{"name": "kafka", "secret": {"secretName": reference.name}}] if reference else []


def tmp_volume() -> Object:
    """Return the volume of /tmp."""
    return {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}


def _secured(stream: DedupeStream) -> bool:
    return stream.spec.kafka.config_secret_ref is not None


def _pod_security(ids: PodIds) -> Object:
    return {
        "runAsNonRoot": True,
        **ids.model_dump(by_alias=True, exclude_none=True),
        # A store has many files; their owner is correct after the first start.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _spread_over(topology: str, labels: dict[str, str]) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": topology,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }


def _probe(path: str, port: str, *, period_seconds: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }
