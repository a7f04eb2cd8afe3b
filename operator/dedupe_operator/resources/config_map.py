"""Build the ConfigMaps with the manifest that workers and routers read.

Pods mount one whose name has a hash of what they read of it. So a pod that starts again during a rollout, or after a
version that can't start, has the configuration that belongs to its template. The one without a hash has the newest
manifest, for jobs that users run.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

import yaml

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import CONFIG_HASH, Object
from dedupe_operator.resources import metadata

MANIFEST_KEY: Final = "stream.yaml"
VOLUME: Final = "config"
_HASH_LENGTH: Final = 10
_HASHED: Final = re.compile(rf"-(worker|router)-[0-9a-f]{{{_HASH_LENGTH}}}")
_KEPT: Final = 2
_REMEMBERED: Final = 4096
_REMEMBERED_TEXTS: Final = 1024
_LONGEST_READ: Final = 1 << 16
_DEEPEST_READ: Final = 64

# Spec fields that a worker reads: a change takes effect at the worker's next start.
_READ_BY_WORKERS: Final = ("kafka", "input", "output", "id", "store", "duplicates", "mode")
# Likewise, but left out while they have their defaults: a manifest written before these fields existed stays unchanged,
# so a new operator version restarts no worker.
_READ_BY_LATER_WORKERS: Final = ("conflicts", "late", "repartition", "delivery")


def newest_name(stream: str) -> str:
    """Return the name of the ConfigMap with the newest manifest.

    Workers and routers of earlier releases mount it as well.
    """
    return f"{stream}-worker"


class Config(NamedTuple):
    """A ConfigMap that pods mount, and the hash of what they read of its manifest."""

    name: str
    hash: str


def of_workers(stream: DedupeStream) -> Config:
    """Return the ConfigMap that workers of this manifest mount."""
    read = config_hash(stream)
    return Config(f"{stream.metadata.name}-worker-{read[:_HASH_LENGTH]}", read)


def of_routers(stream: DedupeStream) -> Config:
    """Return the ConfigMap that routers of this manifest mount."""
    read = routers_hash(stream)
    return Config(f"{stream.metadata.name}-router-{read[:_HASH_LENGTH]}", read)


def build(stream: DedupeStream, name: str | None = None) -> Object:
    """Return a ConfigMap with the present manifest of a stream, by default the newest."""
    name = name or newest_name(stream.metadata.name)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata.of_stream(stream, name),
        "data": {MANIFEST_KEY: _text(_Known.of(stream))},
    }


def mounted(template: Object) -> str | None:
    """Return the name of the ConfigMap that the pods of a template mount."""
    volumes = template["spec"].get("volumes") or []
    maps = (each["configMap"] for each in volumes if each["name"] == VOLUME)
    return next((str(each["name"]) for each in maps), None)


def to_mount(live: Object | None, wanted: Config | None) -> Config | None:
    """Return the ConfigMap that a set's pods mount: the wanted, or the live one.

    `wanted` is None if it can't be made now: then the live one stays, with the hash that says so. A StatefulSet of an
    earlier release keeps the one without a hash until what its pods read changes: another name alone restarts none.
    """
    if live is None:
        return wanted
    template = live["spec"]["template"]
    annotation = (template["metadata"].get("annotations") or {}).get(CONFIG_HASH, "")
    live_name, live_hash = mounted(template), annotation.partition("-")[0]
    if live_name and (wanted is None or live_hash == wanted.hash):
        return Config(live_name, live_hash)
    return wanted


def unused(configs: Sequence[Object], used: Collection[str], stream: DedupeStream) -> list[Object]:
    """Return the ConfigMaps of earlier manifests that no pod can need any more.

    `used` are those that templates and pods mount. The newest two others stay: while a StatefulSet replaces its pod, it
    may start one of the revision before once more.
    """
    others = [
        each
        for each in configs
        if each["metadata"]["name"] not in used
        and _HASHED.fullmatch(each["metadata"]["name"].removeprefix(stream.metadata.name))
    ]
    if len(others) <= _KEPT:
        return []  # the usual case, in which no hash is calculated
    wanted = {of_workers(stream).name}
    if stream.spec.repartition:
        wanted.add(of_routers(stream).name)
    others = [each for each in others if each["metadata"]["name"] not in wanted]
    newest_first = sorted(
        others, key=lambda each: str(each["metadata"].get("creationTimestamp")), reverse=True
    )
    return newest_first[_KEPT:]


def direct_input(live: Object | None) -> str | None:
    """Return the input topic of a ConfigMap's manifest; None of a stream with routers.

    Workers of each release read it at their start. "" if it was deleted, or changed by others so that no worker can.
    """
    text = str(((live or {}).get("data") or {}).get(MANIFEST_KEY, ""))
    return _direct_input(text)


# A pass writes and reads the same YAML as the one before, and that takes most of its time.
@lru_cache(maxsize=_REMEMBERED_TEXTS)
def _direct_input(text: str) -> str | None:
    try:
        if len(text) > _LONGEST_READ or not _is_plain(text):
            return ""
        spec = yaml.safe_load(text)["spec"]
        topic = None if "repartition" in spec else spec["input"]["topic"]
    except (yaml.YAMLError, ValueError, LookupError, TypeError):
        return ""
    return topic if topic is None or isinstance(topic, str) else ""


def _is_plain(text: str) -> bool:
    """Return whether a text is no deeper than a manifest, and has no aliases.

    By aliases a few lines stand for gigabytes, and deep ones take minutes. Raises yaml.YAMLError.
    """
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST_READ or isinstance(event, yaml.AliasEvent):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Known:
    """A stream, equal to each other one of its name with the same spec."""

    stream: DedupeStream = field(compare=False)
    name: tuple[str, str]
    spec: str

    @classmethod
    def of(cls, stream: DedupeStream) -> "_Known":
        name = (stream.metadata.namespace, stream.metadata.name)
        return cls(stream, name, stream.spec.model_dump_json())


@lru_cache(maxsize=_REMEMBERED_TEXTS)
def _text(known: _Known) -> str:
    return yaml.safe_dump(_manifest(known.stream), sort_keys=False, allow_unicode=True)


def routers_hash(stream: DedupeStream) -> str:
    """Return a hash of what a router reads at its start, and of nothing else."""
    return _routers_hash(_Known.of(stream))


def config_hash(stream: DedupeStream) -> str:
    """Return a hash of what a worker reads at its start, and of nothing else."""
    return _config_hash(_Known.of(stream))


# A pass asks several times for each partition, and to write YAML takes long.
@lru_cache(maxsize=_REMEMBERED)
def _routers_hash(known: _Known) -> str:
    stream = known.stream
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


@lru_cache(maxsize=_REMEMBERED)
def _config_hash(known: _Known) -> str:
    stream = known.stream
    spec = _manifest(stream)["spec"]
    read = {field: spec.get(field) for field in (*_READ_BY_WORKERS, "worker", "snapshots")}
    read |= {field: spec[field] for field in _READ_BY_LATER_WORKERS if field in spec}
    if stream.spec.repartition is not None:
        # What routers alone read restarts no worker. A loss may be of the repartition topic, or of the input that a
        # worker hands over.
        read["input"] = spec["input"].get("acceptTruncated")
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
