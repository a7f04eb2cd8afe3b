"""Change a stream from what its manifest says to what runs."""

from dedupe_crds.spec.input import AddedPartitions
from dedupe_crds.spec.repartition import Repartition
from dedupe_crds.spec.stream import DedupeStream


def with_bootstrap_servers(stream: DedupeStream, bootstrap_servers: str) -> DedupeStream:
    """Return the stream with other bootstrap servers."""
    return _changed(stream, "kafka", bootstrap_servers=bootstrap_servers)


def with_added(stream: DedupeStream, added: AddedPartitions) -> DedupeStream:
    """Return the stream with another policy for partitions added to its input."""
    return _changed(stream, "input", added_partitions=added)


def with_partitions(stream: DedupeStream, partitions: int) -> DedupeStream:
    """Return a stream with routers that has another number of partitions."""
    return _changed(stream, "repartition", partitions=partitions)


def with_routers(stream: DedupeStream, repartition: Repartition) -> DedupeStream:
    """Return the stream with routers."""
    spec = stream.spec.model_copy(update={"repartition": repartition})
    return stream.model_copy(update={"spec": spec})


def _changed(stream: DedupeStream, part: str, **changes: object) -> DedupeStream:
    """Return the stream with other values in a part of its spec."""
    changed = getattr(stream.spec, part).model_copy(update=changes)
    spec = stream.spec.model_copy(update={part: changed})
    return stream.model_copy(update={"spec": spec})
