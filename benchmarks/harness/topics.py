"""Do what comes before the processes of a stream: topics, and the first epoch."""

from dedupe_crds.spec.stream import DedupeStream
from dedupe_growth.controller import GrowthController
from dedupe_kafka.cluster import Cluster


def ensure_topics(stream: DedupeStream, bootstrap_servers: str) -> None:
    """Create a stream's topics; with routers write the first entries of its epoch log."""
    cluster = Cluster(bootstrap_servers)
    cluster.ensure_output(stream)
    if (repartition := stream.spec.repartition) is not None:
        controller = GrowthController(stream, {}, cluster)
        while controller.step(repartition.partitions, {}):
            pass
