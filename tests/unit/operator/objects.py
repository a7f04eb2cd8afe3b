"""Kubernetes objects for tests, with all that does not matter filled in."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.router import (
    RepartitionTopicStatus,
    RouterInput,
    RouterPhase,
    RouterStatus,
)
from dedupe_crds.status.stream import (
    Condition,
    ConditionStatus,
    PartitionPhase,
    PartitionStatus,
    Restore,
    RestoreSource,
)
from dedupe_crds.status.worker import (
    Counts,
    InputStatus,
    OutputStatus,
    Phase,
    WindowStatus,
    WorkerStatus,
)
from dedupe_operator.kubernetes.names import (
    Object,
    partition_labels,
    partition_name,
    router_pod_labels,
)
from dedupe_operator.resources.pod_template import WorkerRelease
from tests.unit.crds.manifests import changed

NAMESPACE: Final = "shop"
STREAM: Final = "orders"
UID: Final = "uid-of-orders"
NODE: Final = "node-1"
MIRROR: Final = "mirror.example/"
NOW: Final = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
EARLIER: Final = NOW - timedelta(hours=1)
RELEASE: Final = WorkerRelease(image="registry.example/worker:1", pull_policy="IfNotPresent")
_STARTED: Final[Object] = {"running": {"startedAt": "2026-11-01T11:00:00Z"}}


def raw_stream(changes: dict[str, Any] | None = None) -> Object:
    """A stream as the API server has it, with values set at dotted paths."""
    return changed(
        {
            "metadata.namespace": NAMESPACE,
            "metadata.uid": UID,
            "metadata.generation": 1,
            "metadata.creationTimestamp": "2026-10-01T12:00:00Z",
            **(changes or {}),
        }
    )


def stream(changes: dict[str, Any] | None = None) -> DedupeStream:
    return parse_manifest(raw_stream(changes), "test")


def stateful_set(
    partition: int = 0,
    *,
    replicas: int = 1,
    revision: str = "new",
    generation: int = 1,
    observed: int | None = None,
) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": partition_name(STREAM, partition),
            "namespace": NAMESPACE,
            "uid": f"uid-of-set-{partition}",
            "labels": partition_labels(STREAM, partition),
            "generation": generation,
        },
        "spec": {"replicas": replicas},
        "status": {
            "observedGeneration": generation if observed is None else observed,
            "updateRevision": revision,
        },
    }


def pod(
    partition: int = 0,
    *,
    ready: bool = True,
    revision: str = "new",
    dying: bool = False,
    created: datetime = EARLIER,
    address: str | None = "10.0.0.1",
    conditions: tuple[Object, ...] = (),
    container: Object | None = None,
) -> Object:
    status: Object = {
        "conditions": [*conditions, {"type": "Ready", "status": str(ready)}],
        "containerStatuses": [
            {
                "name": "worker",
                "image": "registry.example/worker:1",
                "ready": ready,
                "state": _STARTED,
                **(container or {}),
            }
        ],
    }
    if address:
        status["podIP"] = address
    metadata: Object = {
        "name": f"{partition_name(STREAM, partition)}-0",
        "namespace": NAMESPACE,
        "uid": f"uid-of-pod-{partition}",
        "creationTimestamp": created.isoformat(),
        "labels": {**partition_labels(STREAM, partition), "controller-revision-hash": revision},
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": NODE},
        "status": status,
    }


def router_pod(router: int = 0, *, ready: bool = True, container: Object | None = None) -> Object:
    made = pod(ready=ready, container={"name": "router", **(container or {})})
    name = {"name": f"{STREAM}-router-{router}", "uid": f"uid-of-router-{router}"}
    made["metadata"] |= {**name, "labels": router_pod_labels(STREAM)}
    return made


def waiting(reason: str, message: str = "") -> Object:
    """The status of a container that does not start."""
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def ended(exit_code: int, message: str = "", reason: str = "Error") -> Object:
    """The status of a container that ended and waits for its next start."""
    last = {"exitCode": exit_code, "message": message, "reason": reason}
    return {**waiting("CrashLoopBackOff"), "lastState": {"terminated": last}}


def claim(
    name: str = "orders-0-1",
    *,
    partition: int = 0,
    phase: str = "Bound",
    class_name: str | None = "gp3",
    size: str = "20Gi",
    dying: bool = False,
    conditions: tuple[Object, ...] = (),
) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-of-{name}",
        "labels": partition_labels(STREAM, partition),
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    if class_name:
        spec["storageClassName"] = class_name
    if phase == "Bound":
        spec["volumeName"] = f"pv-of-{name}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase, "conditions": list(conditions)},
    }


def node(
    name: str = NODE,
    *,
    status: str = "True",
    since: datetime = EARLIER,
    message: str = "Kubelet stopped posting node status.",
) -> Object:
    """A node whose Ready condition has had a status `since` then."""
    ready = {"type": "Ready", "status": status, "message": message}
    other = {"type": "DiskPressure", "status": "Unknown", "lastTransitionTime": since.isoformat()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-of-{name}"},
        "status": {"conditions": [other, {**ready, "lastTransitionTime": since.isoformat()}]},
    }


def attachment(volume: str, *, to: str = NODE, dying: bool = False) -> Object:
    """What has a volume attached to a node."""
    metadata: Object = {"name": f"csi-{volume}-{to}", "uid": f"uid-of-{volume}-{to}"}
    if dying:
        metadata["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": metadata,
        "spec": {"nodeName": to, "source": {"persistentVolumeName": volume}},
        "status": {"attached": True},
    }


def event(reason: str, message: str, *, minute: int = 0) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-11-01T11:{minute:02}:00Z",
    }


def restore(source: RestoreSource = RestoreSource.NOTHING) -> Restore:
    return Restore(source=source, reason="a reason", time=EARLIER)


def partition_status(partition: int = 0, **known: object) -> PartitionStatus:
    """What a stream's status says of a partition that runs."""
    given: dict[str, Any] = {
        "phase": PartitionPhase.RUNNING,
        "ready": True,
        "persistent_volume_claim": f"orders-{partition}-1",
        "restore": restore(),
        **known,
    }
    return PartitionStatus(partition=partition, **given)


def condition(
    name: str, status: str, reason: str = "Reason", message: str = "Words.", **known: object
) -> Condition:
    given: dict[str, Any] = {"last_transition_time": EARLIER, "observed_generation": 1, **known}
    return Condition(
        type=name, status=ConditionStatus(status), reason=reason, message=message, **given
    )


def worker_status(
    partition: int = 0,
    *,
    phase: Phase = Phase.RUNNING,
    reason: str | None = None,
    message: str | None = None,
    lag_messages: int | None = 0,
    duplicates: int = 0,
    window: timedelta = timedelta(days=3),
    window_healthy: bool = True,
) -> WorkerStatus:
    return WorkerStatus(
        stream=f"{NAMESPACE}/{STREAM}",
        partition=partition,
        phase=phase,
        ready=phase is Phase.RUNNING,
        reason=reason,
        message=message,
        started_at=EARLIER,
        uptime_seconds=3600.0,
        input=InputStatus(topic="orders", next_offset=0, lag_messages=lag_messages),
        output=OutputStatus(topic="orders-clean"),
        counts=Counts(duplicates=duplicates),
        window=WindowStatus(
            seconds=window.total_seconds(),
            bytes=0,
            keys=0,
            generations=1,
            truncated=False,
            healthy=window_healthy,
        ),
    )


def router_status(
    router: int = 0,
    *,
    phase: RouterPhase = RouterPhase.RUNNING,
    reason: str | None = None,
    message: str | None = None,
    warnings: dict[str, str] | None = None,
    lags: dict[str, int | None] | None = None,
    held: tuple[int, int] | None = (0, 0),
) -> RouterStatus:
    records, size = held or (None, None)
    return RouterStatus(
        stream=f"{NAMESPACE}/{STREAM}",
        router=router,
        phase=phase,
        ready=phase is RouterPhase.RUNNING and reason is None,
        reason=reason,
        message=message,
        warnings=warnings or {},
        started_at=EARLIER,
        uptime_seconds=3600.0,
        inputs=[
            RouterInput(topic=topic, partitions=[router], lag_messages=lag)
            for topic, lag in ({"orders": 0} if lags is None else lags).items()
        ],
        output=RepartitionTopicStatus(
            topic="orders-clean-repartition", partitions=2, held_records=records, held_bytes=size
        ),
    )


def mirrored(made: Object) -> None:
    """Replace the registry of a StatefulSet's images, as a mutating webhook may do."""
    if made["kind"] == "StatefulSet":
        for container in made["spec"]["template"]["spec"]["containers"]:
            container["image"] = container["image"].replace("registry.example/", MIRROR)
