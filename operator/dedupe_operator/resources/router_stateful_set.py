"""Build the StatefulSet of a stream's routers.

It numbers them: a router that starts again has the number of its predecessor, so Kafka fences the predecessor.
"""

from math import ceil
from typing import Final

from dedupe_crds.annotations import RESTART, ROUTERS_OF
from dedupe_crds.quantity import MIB
from dedupe_crds.spec.repartition import Repartition
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import (
    CONFIG_HASH,
    Object,
    router_pod_labels,
    routers_name,
)
from dedupe_operator.resources import config_map, metadata, pod_parts, pod_shape
from dedupe_operator.resources.config_map import Config
from dedupe_operator.resources.pod_template import WorkerRelease

ROUTER_CONTAINER: Final = "router"
# Resources of a router that has little to do: it has batches of records in memory, and no store.
_CPU: Final = "50m"
_MEMORY: Final = 256 * MIB
_PROBE_PORT: Final = 8081
# Kubernetes labels a StatefulSet's pod with its ordinal, from 1.28 on.
_ORDINAL: Final = "metadata.labels['apps.kubernetes.io/pod-index']"


def replicas(stream: DedupeStream) -> int:
    """Return the number of routers that are to run."""
    repartition = stream.spec.repartition
    return 0 if repartition is None or stream.spec.suspend else repartition.routers.replicas


def build(
    stream: DedupeStream,
    *,
    release: WorkerRelease,
    secrets_hash: str,
    config: Config | None = None,
) -> Object | None:
    """Return the StatefulSet of all routers; None without spec.repartition."""
    repartition = stream.spec.repartition
    if repartition is None:
        return None
    name = stream.metadata.name
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata.of_routers(stream) | release.annotations(stream),
        "spec": {
            "replicas": replicas(stream),
            "serviceName": routers_name(name),
            # Routers do not depend on each other; a rollout still replaces one after another.
            "podManagementPolicy": "Parallel",
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": {ROUTERS_OF: name}},
            "template": _template(
                stream,
                repartition,
                release,
                secrets_hash,
                config=config or config_map.of_routers(stream),
            ),
        },
    }


def _template(
    stream: DedupeStream,
    repartition: Repartition,
    release: WorkerRelease,
    secrets_hash: str,
    *,
    config: Config,
) -> Object:
    """Return the template of a router's pod, with a hash of all that it reads once."""
    name = stream.metadata.name
    annotations = {CONFIG_HASH: f"{config.hash}-{secrets_hash}"}
    if restart := stream.metadata.annotations.get(RESTART):
        annotations[RESTART] = restart
    siblings = {ROUTERS_OF: name}
    template = {
        "metadata": {"labels": router_pod_labels(name), "annotations": annotations},
        "spec": {
            **pod_parts.pod_spec(
                stream, siblings=siblings, ids=release.ids, defaults=release.defaults
            ),
            "containers": [_container(stream, repartition, release)],
            "volumes": [
                pod_parts.config_volume(config.name),
                pod_parts.tmp_volume(),
                *pod_parts.kafka_volumes(stream),
            ],
        },
    }
    shape = pod_shape.merged(release.shape, stream.spec.worker)
    return pod_shape.shaped(template, shape, siblings)


def _container(stream: DedupeStream, repartition: Repartition, release: WorkerRelease) -> Object:
    resources = repartition.routers.resources.model_dump(mode="json", exclude_defaults=True)
    number = {"fieldRef": {"apiVersion": "v1", "fieldPath": _ORDINAL}}
    return {
        "name": ROUTER_CONTAINER,
        "image": release.image_of(stream),
        "imagePullPolicy": release.pull_policy,
        "command": ["dedupe-router"],
        "args": [
            pod_parts.CONFIG_ARGUMENT,
            pod_parts.HTTP_ARGUMENT,
            f"--probe-address=0.0.0.0:{_PROBE_PORT}",
            *pod_parts.kafka_arguments(stream),
        ],
        "env": [{"name": "DEDUPE_ROUTER_ROUTER", "valueFrom": number}],
        "ports": pod_parts.ports(_PROBE_PORT),
        "resources": {"requests": _requests(repartition), **resources},
        "securityContext": pod_parts.container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **pod_parts.probes("probes"),
        "volumeMounts": [
            pod_parts.config_mount(),
            *pod_parts.kafka_mounts(stream),
            pod_parts.tmp_mount(),
        ],
    }


def _requests(repartition: Repartition) -> Object:
    """Return the default requests, which do not exceed a limit that the user sets."""
    resources = repartition.routers.resources
    limit = resources.memory_limit
    is_lower = limit is not None and limit < _MEMORY
    memory = resources.limits["memory"] if is_lower else f"{ceil(_MEMORY / MIB)}Mi"
    return {"cpu": _CPU, "memory": memory}
