"""A partition's stable address."""

from dedupe_crds.stream import DedupeStream
from dedupe_operator.children.owner import controlled_by
from dedupe_operator.labels import PARTITION, STREAM, Object, partition_labels, partition_name


def build(stream: DedupeStream, partition: int) -> Object:
    """The headless Service of one partition, which answers for a worker that is not ready too."""
    name = stream.metadata.name
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": partition_name(name, partition),
            "namespace": stream.metadata.namespace,
            "labels": partition_labels(name, partition),
            "ownerReferences": controlled_by(stream),
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {STREAM: name, PARTITION: str(partition)},
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP", "targetPort": "http"}],
        },
    }
