"""Build the StatefulSet of one partition's worker: one replica."""

from dedupe_crds.annotations import PARTITION, STREAM
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_operator.kubernetes.names import Object, partition_name
from dedupe_operator.resources import metadata, pod_template
from dedupe_operator.resources.config_map import Config
from dedupe_operator.resources.pod_template import WorkerRelease


def build(
    stream: DedupeStream,
    partition: int,
    *,
    claim: str,
    release: WorkerRelease,
    secrets_hash: str,
    config: Config | None = None,
    restore_from: str | None = None,
    restore_location: CopyLocation | None = None,
) -> Object:
    """Return the StatefulSet of one partition.

    It mounts a claim by name and has no volume claim template: the operator manages the claims.
    """
    name = stream.metadata.name
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata.of_partition(stream, partition) | release.annotations(stream),
        "spec": {
            "replicas": 0 if stream.spec.suspend else 1,
            "serviceName": partition_name(name, partition),
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": {STREAM: name, PARTITION: str(partition)}},
            "template": pod_template.build(
                stream,
                partition,
                claim=claim,
                release=release,
                secrets_hash=secrets_hash,
                config=config,
                restore_from=restore_from,
                restore_location=restore_location,
            ),
        },
    }
