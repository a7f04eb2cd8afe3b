"""A partition's stable address."""

from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import PARTITION, STREAM, Object
from dedupe_operator.resources import metadata


def build(stream: DedupeStream, partition: int) -> Object:
    """The headless Service of one partition, which answers for a worker that is not ready too."""
    name = stream.metadata.name
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata.of_partition(stream, partition),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {STREAM: name, PARTITION: str(partition)},
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP", "targetPort": "http"}],
        },
    }
