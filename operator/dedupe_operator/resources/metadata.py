"""What all children have in common: names, labels, and an owner they go with.

The API server's garbage collector deletes what a stream owns.
"""

from dedupe_crds.spec.stream import API_VERSION, KIND, DedupeStream
from dedupe_operator.kubernetes.names import Object, partition_labels, partition_name, stream_labels


def of_stream(stream: DedupeStream, name: str) -> Object:
    """The metadata of a child that the whole stream has once."""
    return {
        "name": name,
        "namespace": stream.metadata.namespace,
        "labels": stream_labels(stream.metadata.name),
        "ownerReferences": [_controlled_by(stream)],
    }


def of_partition(stream: DedupeStream, partition: int) -> Object:
    """The metadata of a child that each partition has one of."""
    name = stream.metadata.name
    return {
        "name": partition_name(name, partition),
        "namespace": stream.metadata.namespace,
        "labels": partition_labels(name, partition),
        "ownerReferences": [_controlled_by(stream)],
    }


def reference(stream: DedupeStream) -> Object:
    """The owner reference of an object that goes with the stream, and blocks nothing."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": stream.metadata.name,
        "uid": stream.metadata.uid,
    }


def _controlled_by(stream: DedupeStream) -> Object:
    return {**reference(stream), "controller": True, "blockOwnerDeletion": True}
