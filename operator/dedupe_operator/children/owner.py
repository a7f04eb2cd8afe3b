"""Children go with their stream: the API server's garbage collector deletes what it owns."""

from dedupe_crds.stream import API_VERSION, KIND, DedupeStream
from dedupe_operator.labels import Object


def controlled_by(stream: DedupeStream) -> list[Object]:
    """The owner reference of an object the stream's controller alone looks after."""
    return [{**_reference(stream), "controller": True, "blockOwnerDeletion": True}]


def collected_with(stream: DedupeStream) -> list[Object]:
    """The owner reference of an object that is deleted with the stream, and blocks nothing."""
    return [_reference(stream)]


def _reference(stream: DedupeStream) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": stream.metadata.name,
        "uid": stream.metadata.uid,
    }
