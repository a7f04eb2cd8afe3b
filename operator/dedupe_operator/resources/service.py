"""Build the Service that gives a partition's worker a stable address."""

from dedupe_crds.annotations import PARTITION, STREAM
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import metadata


def build(stream: DedupeStream, partition: int) -> Object:
    """Return the headless Service of one partition; it lists unready pods too."""
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
