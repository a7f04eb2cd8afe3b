"""Build the PersistentVolumeClaim of a partition's store."""

from dedupe_crds.quantity import format_size
from dedupe_crds.spec.store import ReclaimPolicy
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.stream import Restore, RestoreSource
from dedupe_operator.kubernetes.names import (
    NOT_PRUNED,
    RESTORE_REQUEST,
    SERVED,
    Object,
    lasting_labels,
)
from dedupe_operator.resources import metadata


def build(
    stream: DedupeStream,
    partition: int,
    *,
    served: int,
    name: str,
    live: Object | None,
    size: int,
    made_from: Object,
    request: str | None = None,
) -> Object:
    """Return the PersistentVolumeClaim of one partition.

    `served` is the number of the stream's partitions. `made_from` are the fields of its spec that name its source,
    `request` is the restore request that it answers. It has no owner, so it outlives the stream; with
    `reclaimPolicy: Delete` it has, and the garbage collector deletes it. Immutable fields are copied from the live
    claim.
    """
    storage = stream.spec.storage
    spec: Object = {
        "accessModes": live["spec"]["accessModes"] if live else ["ReadWriteOnce"],
        "resources": {"requests": {"storage": format_size(size)}},
    }
    class_name = live["spec"].get("storageClassName") if live else storage.storage_class_name
    if class_name is not None:
        spec["storageClassName"] = class_name
    spec |= made_from
    described: Object = {
        "name": name,
        "namespace": stream.metadata.namespace,
        "labels": lasting_labels(stream.metadata.name, partition),
        "annotations": {**NOT_PRUNED, SERVED: str(served)},
    }
    if request is not None:
        described["annotations"][RESTORE_REQUEST] = request
    if storage.reclaim_policy is ReclaimPolicy.DELETE:
        described["ownerReferences"] = [metadata.reference(stream)]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": described,
        "spec": spec,
    }


def origin(live: Object, restore: Restore) -> Object:
    """Return the immutable fields of a live claim's spec that name its source.

    A reattached claim may have been restored before: without these fields the API server refuses to change it.
    """
    if restore.source not in {RestoreSource.SNAPSHOT, RestoreSource.VOLUME}:
        return {}
    fields = ("dataSource",) if "dataSource" in live["spec"] else ("volumeName",)
    return {name: live["spec"][name] for name in fields if name in live["spec"]}
