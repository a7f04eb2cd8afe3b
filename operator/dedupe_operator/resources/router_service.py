"""Build the Service that gives the routers' pods stable addresses."""

from dedupe_crds.annotations import ROUTERS_OF
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import metadata


def build(stream: DedupeStream) -> Object | None:
    """Return the headless Service of all routers; it lists unready pods too."""
    if stream.spec.repartition is None:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata.of_routers(stream),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {ROUTERS_OF: stream.metadata.name},
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP", "targetPort": "http"}],
        },
    }
