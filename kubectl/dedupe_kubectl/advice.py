"""Advice by the reason of a problem. `diagnosis` adds it to its findings."""

from typing import Final

# By the stable reasons of conditions and workers: only those whose message does not say what to do, or not in terms
# of the manifest.
PARTITION_ADVICE: Final = {
    "BrokerUnavailable": "check spec.kafka.bootstrapServers, and that pods can reach the brokers",
    "BucketRefused": "check spec.snapshots.s3: the bucket, and what its credentials allow",
    "BucketUnavailable": "check spec.snapshots.s3.endpoint, and that pods can reach it",
    "DiskFull": "raise spec.storage.size",
    "IdentityRefused": "wait for the partition to get its own volume, and find out who swapped volumes",
    "RouterFailed": "see the router's log: kubectl logs --previous",
    "RouterNotStarted": "create or correct what the message names, such as a Secret",
    "RestoreFailed": "wait for the next source; the sources left: kubectl dedupe snapshots STREAM",
    "VolumeExpansionFailed": "see the events of the PersistentVolumeClaim",
    "VolumeNotMounted": "fix what the message names",
    "VolumeNotProvisioned": "fix what the message names",
    "WorkerFailed": "see the worker's log: kubectl logs --previous",
    "WorkerNotStarted": "create or correct what the message names, such as a Secret",
}
STREAM_ADVICE: Final = {
    **PARTITION_ADVICE,
    "InvalidSchedule": "correct spec.snapshots.schedule, a cron schedule in UTC",
    "LastSnapshotFailed": "fix what the message names, then make one: kubectl dedupe snapshot STREAM",
    "CopiesNotDeleted": "allow the present credentials to delete there, or remove the snapshot's finalizer",
    "CopiesNotReadable": "allow the present credentials to read there, or delete the snapshot",
    "SnapshotOverdue": "see what blocks it: kubectl dedupe snapshots STREAM",
    "InvalidManifest": "correct the named field, and apply the manifest again",
    "NotAuthorized": "correct client.properties in the Secret of spec.kafka.configSecretRef, or grant the ACLs",
    "SecretInvalid": "correct the key client.properties of the Secret of spec.kafka.configSecretRef",
    "TopicMissing": "create the input topic, or name another in a new stream",
}
