"""Streams, pods and events as the API server has them, with all that does not matter filled in."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dedupe_crds.status.worker import (
    Counts,
    InputStatus,
    OutputStatus,
    Phase,
    WindowStatus,
    WorkerStatus,
)
from dedupe_kubectl.objects import Object, by_partition, read_stream
from dedupe_kubectl.stream_view import StreamView

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=2)


def written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(type_: str, status: str = "True", reason: str = "R", message: str = "m") -> Object:
    return {
        "type": type_,
        "status": status,
        "observedGeneration": 1,
        "lastTransitionTime": written(LONG_AGO),
        "reason": reason,
        "message": message,
    }


READY = (condition("Ready"), condition("Degraded", "False"), condition("WindowHealthy"))


def partition(number: int = 0, phase: str = "Running", **fields: object) -> Object:
    return {
        "partition": number,
        "phase": phase,
        "ready": phase == "Running",
        "persistentVolumeClaim": f"orders-{number}-1",
        **fields,
    }


def stream(  # all by name
    name: str = "orders",
    *,
    conditions: Sequence[Object] = READY,
    partitions: Sequence[Object] = (),
    spec: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Object:
    return {
        "apiVersion": "dedupestream.io/v1alpha1",
        "kind": "DedupeStream",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "generation": 1,
            "creationTimestamp": written(LONG_AGO),
            **(metadata or {}),
        },
        "spec": {"input": {"topic": "raw"}, "output": {"topic": "clean"}, **(spec or {})},
        "status": {
            "observedGeneration": 1,
            "conditions": list(conditions),
            "partitions": list(partitions),
            **(status or {}),
        },
    }


def snapshot(
    name: str = "orders-a",
    *,
    of: str = "orders",
    phase: str = "Completed",
    copies: Sequence[Object] = (),
    created: datetime = LONG_AGO,
    **status: object,
) -> Object:
    return {
        "apiVersion": "dedupestream.io/v1alpha1",
        "kind": "DedupeSnapshot",
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": written(created)},
        "spec": {"streamRef": {"name": of}, "partitions": []},
        "status": {"phase": phase, "provider": "CSI", "partitions": list(copies), **status},
    }


def copy(number: int = 0, phase: str = "Completed", **fields: object) -> Object:
    return {"partition": number, "phase": phase, **fields}


def pod(
    number: int = 0, *, of: str = "orders", ready: bool = True, uid: str = "a", **status: object
) -> Object:
    return {
        "metadata": {
            "name": f"{of}-{number}-0",
            "namespace": "shop",
            "uid": uid,
            "labels": {"dedupestream.io/stream": of, "dedupestream.io/partition": str(number)},
        },
        "spec": {"nodeName": f"node-{number}"},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            **status,
        },
    }


def event(about: str, message: str, *, kind: str = "Pod", reason: str = "Failed") -> Object:
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": written(NOW),
        "involvedObject": {"kind": kind, "name": about},
    }


def worker(
    number: int = 0,
    *,
    phase: Phase = Phase.RUNNING,
    reason: str | None = None,
    message: str | None = None,
    consumed: int = 0,
    duplicates: int = 0,
    healthy: bool = True,
    window_seconds: float = 3600,
    store_bytes: int = 0,
) -> WorkerStatus:
    return WorkerStatus(
        stream="shop/orders",
        partition=number,
        phase=phase,
        ready=phase is Phase.RUNNING and reason is None,
        reason=reason,
        message=message,
        started_at=LONG_AGO,
        uptime_seconds=1.0,
        input=InputStatus(topic="raw", next_offset=0, lag_messages=7),
        output=OutputStatus(topic="clean"),
        counts=Counts(consumed=consumed, duplicates=duplicates),
        window=WindowStatus(
            seconds=window_seconds,
            bytes=store_bytes,
            keys=0,
            generations=1,
            truncated=False,
            healthy=healthy,
        ),
    )


def view(
    document: Object, pods: Sequence[Object] = (), workers: Sequence[WorkerStatus] = ()
) -> StreamView:
    return StreamView(
        stream=read_stream(document),
        pods=by_partition(pods),
        workers={one.partition: one for one in workers},
    )
