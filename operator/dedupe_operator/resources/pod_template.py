"""Build a worker's pod: restricted Pod Security, one volume, no RBAC rights."""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from math import ceil
from typing import Final

from dedupe_crds.annotations import RESTART, STREAM
from dedupe_crds.quantity import MIB
from dedupe_crds.spec.pod import PodShape
from dedupe_crds.spec.store import StoreType
from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_operator.kubernetes.names import CONFIG_HASH, RELEASE, Object, partition_labels
from dedupe_operator.resources import (
    admin_secret,
    config_map,
    pod_parts,
    pod_shape,
    service_account,
)
from dedupe_operator.resources.config_map import Config

CONTAINER: Final = "worker"
ADMIN_MOUNT: Final = "/etc/dedupestream/admin"
STATE_MOUNT: Final = "/var/lib/dedupestream"
STATE_VOLUME: Final = "state"
S3_MOUNT: Final = "/etc/dedupestream/s3"
S3_KEY: Final = "credentials"
# Resources of a worker with a small store.
_CPU: Final = "50m"
_MEMORY: Final = 256 * MIB
# Of a full window: 3.73 of 28.7 bytes an id are its filter's, which is in memory (docs/scale.md).
_FILTERS: Final = 0.13


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRelease:
    """The worker image that belongs to this operator version, and its pods' defaults.

    `probe_port` is where its workers serve probes alone; None if they may be older than that. `shape` is what the pods
    of all streams have, `ids` as whom they run, `defaults` what differs between versions. `streams_at_once` is how many
    streams an upgrade changes at the same time. `version` is the operator's.
    """

    version: str = ""
    image: str
    pull_policy: str
    probe_port: int | None = None
    shape: PodShape = field(default_factory=PodShape)
    ids: pod_parts.PodIds = field(default_factory=pod_parts.PodIds)
    defaults: pod_parts.PodDefaults = field(default_factory=pod_parts.PodDefaults)
    streams_at_once: int = 1

    def image_of(self, stream: DedupeStream) -> str:
        """Return the image of a stream's workers and routers."""
        return stream.spec.worker.image or self.image

    def annotations(self, stream: DedupeStream) -> Object:
        """Return the annotations of a StatefulSet, as metadata."""
        return {"annotations": {RELEASE: self.hash_of(stream)}}

    def hash_of(self, stream: DedupeStream) -> str:
        """Return a hash of what a stream's pods have of the operator.

        Its defaults do not count, because pods keep theirs.
        """
        shape = self.shape.model_dump_json(exclude={"image_pull_secrets"})  # in the ServiceAccount
        parts = (self.version, self.image_of(stream), self.pull_policy, self.probe_port)
        text = json.dumps([*parts, shape, self.ids.model_dump_json()])
        return sha256(text.encode()).hexdigest()[:16]


def build(
    stream: DedupeStream,
    partition: int,
    *,
    claim: str,
    release: WorkerRelease,
    secrets_hash: str,
    config: Config | None = None,
    restore_from: str | None = None,
    restore_location: CopyLocation | None = None,
) -> Object:
    """Return the template of a worker's pod.

    It has a hash of everything that a worker reads once at its start, so a change of it restarts the worker.
    `config` is the ConfigMap that it mounts, by default the manifest's own. With `restore_from`, the worker fills an
    empty volume from that snapshot in the bucket `restore_location`, by default that of the stream.
    """
    name = stream.metadata.name
    config = config or config_map.of_workers(stream)
    hashes = [
        config.hash,
        secrets_hash,
        service_account.annotations_hash(stream),
    ]
    annotations = {CONFIG_HASH: "-".join(filter(None, hashes))}
    if restart := stream.metadata.annotations.get(RESTART):
        annotations[RESTART] = restart
    environment = _environment(stream, release, restore_location if restore_from else None)
    siblings = {STREAM: name}
    template = {
        "metadata": {"labels": partition_labels(name, partition), "annotations": annotations},
        "spec": {
            **pod_parts.pod_spec(
                stream, siblings=siblings, ids=release.ids, defaults=release.defaults
            ),
            "containers": [_container(stream, partition, release, restore_from, environment)],
            "volumes": _volumes(stream, claim, config.name),
        },
    }
    shape = pod_shape.merged(release.shape, stream.spec.worker)
    return pod_shape.shaped(template, shape, siblings)


def _container(
    stream: DedupeStream,
    partition: int,
    release: WorkerRelease,
    restore_from: str | None,
    environment: Object,
) -> Object:
    worker = stream.spec.worker
    resources = worker.resources.model_dump(mode="json", exclude_defaults=True)
    probe_port = _probe_port(stream, release)
    return {
        "name": CONTAINER,
        "image": release.image_of(stream),
        "imagePullPolicy": release.pull_policy,
        "args": _arguments(stream, partition, restore_from),
        **environment,
        "ports": pod_parts.ports(probe_port),
        "resources": {"requests": _requests(stream.spec, release.defaults), **resources},
        "securityContext": pod_parts.container_security(),
        # The end of its log becomes the container's termination message.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **pod_parts.probes("probes" if probe_port else "http"),
        "volumeMounts": [
            {"name": STATE_VOLUME, "mountPath": STATE_MOUNT},
            pod_parts.config_mount(),
            pod_parts.mount("admin", ADMIN_MOUNT),
            *pod_parts.kafka_mounts(stream),
            *([pod_parts.mount("s3", S3_MOUNT)] * bool(_s3_secret(stream))),
            pod_parts.tmp_mount(),
        ],
    }


def _requests(spec: Spec, defaults: pod_parts.PodDefaults) -> Object:
    """Return the default requests: the worker's, and of its store.

    The table, or the filters of a full window, are in memory. Requests do not exceed a limit that the user sets, or the
    pod would be refused. A user who sets any request sets all.
    """
    wanted = _MEMORY + spec.table_bytes
    if spec.store.type is StoreType.ROCKSDB and defaults.memory_by_window:
        wanted += _FILTERS * spec.store.window.max_bytes
    limit = spec.worker.resources.memory_limit
    is_lower = limit is not None and limit < wanted
    memory = spec.worker.resources.limits["memory"] if is_lower else f"{ceil(wanted / MIB)}Mi"
    return {"cpu": _CPU, "memory": memory}


def _probe_port(stream: DedupeStream, release: WorkerRelease) -> int | None:
    # A stream's own image may be of any version; an old worker serves its probes at the port of its API only.
    return None if stream.spec.worker.image else release.probe_port


def _environment(
    stream: DedupeStream, release: WorkerRelease, restore_location: CopyLocation | None
) -> Object:
    """Return the container's variables, if there are any."""
    variables = {}
    if _s3_secret(stream):
        variables["AWS_SHARED_CREDENTIALS_FILE"] = f"{S3_MOUNT}/{S3_KEY}"
    s3 = stream.spec.snapshots.s3 if stream.spec.snapshots else None
    if restore_location and s3 and restore_location != CopyLocation.of(s3):
        variables["DEDUPE_WORKER_RESTORE_LOCATION"] = restore_location.model_dump_json(
            exclude_none=True
        )
    if probe_port := _probe_port(stream, release):
        # Not an argument: a worker that does not know it would refuse to start.
        variables["DEDUPE_WORKER_PROBE_ADDRESS"] = f"0.0.0.0:{probe_port}"
    return {"env": [{"name": n, "value": v} for n, v in variables.items()]} if variables else {}


def _arguments(stream: DedupeStream, partition: int, restore_from: str | None) -> list[str]:
    return [
        pod_parts.CONFIG_ARGUMENT,
        f"--partition={partition}",
        # Not the volume's root, where a file system may have its own files.
        f"--state-dir={STATE_MOUNT}/state",
        pod_parts.HTTP_ARGUMENT,
        # It outlives the container but not the pod: a new pod may take the partition over again.
        "--fenced-file=/tmp/fenced",
        f"--admin-token-file={ADMIN_MOUNT}/{admin_secret.TOKEN_KEY}",
        *pod_parts.kafka_arguments(stream),
        *([f"--restore-from={restore_from}"] if restore_from else []),
    ]


def _volumes(stream: DedupeStream, claim: str, config: str) -> list[Object]:
    name = stream.metadata.name
    volumes: list[Object] = [
        {"name": STATE_VOLUME, "persistentVolumeClaim": {"claimName": claim}},
        pod_parts.config_volume(config),
        {"name": "admin", "secret": {"secretName": admin_secret.name(name)}},
        pod_parts.tmp_volume(),
        *pod_parts.kafka_volumes(stream),
    ]
    if secret := _s3_secret(stream):
        # Optional: without it snapshots fail with a reported error, and messages still pass.
        volumes.append({"name": "s3", "secret": {"secretName": secret, "optional": True}})
    return volumes


def _s3_secret(stream: DedupeStream) -> str | None:
    s3 = stream.spec.snapshots.s3 if stream.spec.snapshots else None
    return s3.credentials_secret_ref.name if s3 and s3.credentials_secret_ref else None
