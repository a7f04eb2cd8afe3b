"""Checks of a manifest before a local run: unsupported and ignored fields.

The commands call it before they start anything. Pure: no I/O.
"""

from dedupe_crds.quantity import format_duration, format_size
from dedupe_crds.spec.store import Store
from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_crds.status.snapshot import DedupeSnapshot
from dedupe_local.errors import Refused

_KUBERNETES_ONLY = (
    "kafka.config_secret_ref",
    "storage",
    "snapshots",
    "failover",
    "worker.image",
    "worker.resources",
    "repartition.routers.resources",
)


def refuse_unsupported(
    stream: DedupeStream,
    *,
    has_properties: bool = False,
    embedded: bool = False,
    has_servers: bool = False,
    has_partitions: bool = False,
) -> None:
    """Refuse options and fields that would fail or be ignored later.

    `embedded`: the broker is the embedded one. The others: the user gave Kafka client properties, bootstrap servers, a
    number of partitions.

    Raises:
        Refused: with the field and the remedy.
    """
    if embedded and has_servers:
        raise Refused(
            "--embedded starts a broker, and --bootstrap-servers names one: omit one of them."
        )
    if has_partitions and not embedded:
        raise Refused("--partitions is only for the embedded broker: omit it, or add --embedded.")
    if has_partitions and stream.spec.input.pattern is not None:
        raise Refused("--partitions: no topic is created for spec.input.pattern; omit the option.")
    if stream.spec.kafka.config_secret_ref and not has_properties and not embedded:
        raise Refused(
            "spec.kafka.configSecretRef names a Kubernetes Secret, which a local run cannot read: "
            "write its properties to a file and pass that with --kafka-properties."
        )
    if has_properties and embedded:
        raise Refused(
            "--kafka-properties is not for --embedded: the embedded broker accepts any client of this machine and no "
            "credentials."
        )


def unused_fields(stream: DedupeStream) -> list[str]:
    """Return the paths of fields that the user set and only Kubernetes uses."""
    return [_yaml_path(path) for path in _KUBERNETES_ONLY if _is_set(stream, path)]


def summary(stream: DedupeStream) -> str:
    """Return a one-line summary of a stream."""
    spec = stream.spec
    where = spec.id.name or spec.id.path
    return (
        f"{stream.shown}: {spec.input.shown} → "
        f"{spec.output.topic}{_stage(spec)}, id from {spec.id.from_}{f' {where}' if where else ''}, "
        f"{_window_or_table(spec.store)}, mode {spec.mode}"
    )


def snapshot_summary(snapshot: DedupeSnapshot) -> str:
    """Return a one-line summary of a snapshot."""
    metadata, spec = snapshot.metadata, snapshot.spec
    numbers = ", ".join(map(str, spec.partitions))
    which = f"partitions {numbers}" if numbers else "all partitions"
    return (
        f"{snapshot.kind} {metadata.namespace}/{metadata.name}: {which} of {spec.stream_ref.name}"
    )


def _stage(spec: Spec) -> str:
    stage = spec.repartition
    return f" ({stage.partitions} partitions by {stage.by})" if stage else ""


def _window_or_table(store: Store) -> str:
    table = store.inverse_bloom
    if table is None:
        return f"window {format_duration(store.window.max_age)} or {format_size(store.window.max_bytes)}"
    if table.slots is not None:
        return f"table of {table.slots:,} slots"
    if table.memory is not None:
        return f"table of {format_size(table.memory)}"
    return f"table that retains {table.retain:g} for {table.messages:,} messages"


def embedded_port(bootstrap_servers: str) -> int | None:
    """Return the manifest's port if its host is this machine, else None.

    >>> embedded_port("localhost:9092"), embedded_port("kafka:9092")
    (9092, None)
    """
    host, _, port = bootstrap_servers.rpartition(":")
    return int(port) if host in {"localhost", "127.0.0.1"} else None


def _is_set(stream: DedupeStream, path: str) -> bool:
    part: object = stream.spec
    for name in path.split("."):
        if part is None or name not in getattr(part, "model_fields_set", ()):
            return False
        part = getattr(part, name)
    return part is not None


def _yaml_path(path: str) -> str:
    words = [name.split("_") for name in path.split(".")]
    return "spec." + ".".join(w[0] + "".join(map(str.capitalize, w[1:])) for w in words)
