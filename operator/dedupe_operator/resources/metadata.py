"""Build the metadata that all child objects share: name, labels, owner reference.

The API server's garbage collector deletes the objects that a deleted stream owned.
"""

from dedupe_crds.spec.stream import API_VERSION, KIND, DedupeStream
from dedupe_operator.kubernetes.names import (
    Object,
    partition_labels,
    partition_name,
    router_labels,
    routers_name,
    stream_labels,
)


def of_stream(stream: DedupeStream, name: str) -> Object:
    """Return the metadata of a child that all partitions share."""
    return {
        "name": name,
        "namespace": stream.metadata.namespace,
        "labels": stream_labels(stream.metadata.name),
        "ownerReferences": [_controlled_by(stream)],
    }


def of_routers(stream: DedupeStream) -> Object:
    """Return the metadata of a child that all routers share."""
    name = stream.metadata.name
    return {**of_stream(stream, routers_name(name)), "labels": router_labels(name)}


def of_partition(stream: DedupeStream, partition: int) -> Object:
    """Return the metadata of a child of one partition."""
    name = stream.metadata.name
    return {
        "name": partition_name(name, partition),
        "namespace": stream.metadata.namespace,
        "labels": partition_labels(name, partition),
        "ownerReferences": [_controlled_by(stream)],
    }


def of_group(raw: Object, name: str) -> Object:
    """Return the metadata of an object with the status of some partitions.

    `raw` is the stream as the API server has it, whose manifest may be refused.
    """
    owner = raw["metadata"]
    return {
        "name": name,
        "namespace": owner["namespace"],
        "labels": stream_labels(owner["name"]),
        "ownerReferences": [_controller(owner["name"], owner["uid"])],
    }


def reference(stream: DedupeStream) -> Object:
    """Return an owner reference for garbage collection that blocks nothing."""
    return _reference(stream.metadata.name, stream.metadata.uid)


def _controlled_by(stream: DedupeStream) -> Object:
    return _controller(stream.metadata.name, stream.metadata.uid)


def _controller(name: str, uid: str | None) -> Object:
    return {**_reference(name, uid), "controller": True, "blockOwnerDeletion": True}


def _reference(name: str, uid: str | None) -> Object:
    return {"apiVersion": API_VERSION, "kind": KIND, "name": name, "uid": uid}
