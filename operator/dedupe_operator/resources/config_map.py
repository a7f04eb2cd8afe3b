"""Build the ConfigMap with the manifest that workers and routers read."""

from hashlib import sha256
from typing import Any, Final

import yaml

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import metadata

MANIFEST_KEY: Final = "stream.yaml"

# Spec fields that a worker reads: a change takes effect at the worker's next start.
_READ_BY_WORKERS: Final = ("kafka", "input", "output", "id", "store", "duplicates", "mode")
# Likewise, but left out while they have their defaults: a manifest written before these fields existed stays unchanged,
# so a new operator version restarts no worker.
_READ_BY_LATER_WORKERS: Final = ("conflicts", "late", "repartition", "delivery")


def name(stream: str) -> str:
    """Return the name of the ConfigMap."""
    return f"{stream}-worker"


def build(stream: DedupeStream) -> Object:
    """Return the ConfigMap that all workers of a stream mount."""
    text = yaml.safe_dump(_manifest(stream), sort_keys=False, allow_unicode=True)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata.of_stream(stream, name(stream.metadata.name)),
        "data": {MANIFEST_KEY: text},
    }


def direct_input(live: Object) -> str | None:
    """Return the input topic of a ConfigMap's manifest; None of a stream with routers.

    Workers of each release read it at their start.
    """
    spec = yaml.safe_load(live["data"][MANIFEST_KEY])["spec"]
    return None if "repartition" in spec else str(spec["input"]["topic"])


def routers_hash(stream: DedupeStream) -> str:
    """Return a hash of what a router reads at its start, and of nothing else."""
    spec = _manifest(stream)["spec"]
    fields = ("kafka", "input", "output", "id", "repartition", "delivery", "worker")
    read = {field: spec.get(field) for field in fields}
    # Neither changes a router that runs: the container's resources are in its pod, and the number of partitions is in
    # the epoch log, which it follows.
    read["repartition"] = {
        key: each
        for key, each in read["repartition"].items()
        if key not in {"routers", "partitions"}
    }
    read["output"] = {"topic": stream.spec.output.topic}
    if stream.spec.input.pattern is not None:
        # Topics of the stream that match the pattern are not read.
        sides = (stream.spec.duplicates, stream.spec.conflicts, stream.spec.late)
        read["sides"] = [side.topic for side in sides]
    return sha256(yaml.safe_dump(read, sort_keys=True).encode()).hexdigest()[:16]


def config_hash(stream: DedupeStream) -> str:
    """Return a hash of what a worker reads at its start, and of nothing else."""
    spec = _manifest(stream)["spec"]
    read = {field: spec.get(field) for field in (*_READ_BY_WORKERS, "worker", "snapshots")}
    read |= {field: spec[field] for field in _READ_BY_LATER_WORKERS if field in spec}
    if stream.spec.repartition is not None:
        # What routers alone read restarts no worker.
        read["input"] = None
        read["repartition"] = {"topic": stream.spec.worker_input}
    return sha256(yaml.safe_dump(read, sort_keys=True).encode()).hexdigest()[:16]


def _manifest(stream: DedupeStream) -> dict[str, Any]:
    spec = stream.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    written = {field: spec[field] for field in _READ_BY_WORKERS}
    # No process reads it: a change restarts none.
    written["input"].pop("addedPartitions", None)
    not_default = stream.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    written |= {field: spec[field] for field in _READ_BY_LATER_WORKERS if field in not_default}
    written["worker"] = {"tuning": spec["worker"]["tuning"]}
    written["storage"] = {"size": spec["storage"]["size"]}  # a rule compares it with the window
    snapshots = spec.get("snapshots") or {}
    if "s3" in snapshots:
        # Even if the provider is another one now: snapshots in the bucket can still be restored from.
        s3 = SnapshotProvider.S3.value
        written["snapshots"] = {
            **{name: snapshots[name] for name in ("deadline", "s3")},
            "provider": s3,
        }
    metadata = {"name": stream.metadata.name, "namespace": stream.metadata.namespace}
    return {
        "apiVersion": stream.api_version,
        "kind": stream.kind,
        "metadata": metadata,
        "spec": written,
    }
