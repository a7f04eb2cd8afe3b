"""Delete snapshots, and then the contents that no other snapshot needs.

`UploadManager.delete` calls this. Invariant: a content is deleted only if no manifest names it and it is older than
`GRACE`; nothing else below the prefix is touched.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_kafka.errors import StreamError
from dedupe_worker.snapshots.bucket import Bucket, ManifestDamaged, StoredObject
from dedupe_worker.snapshots.s3_client import s3_errors

GRACE: Final = timedelta(hours=1)
"""A younger content may belong to another process's unfinished snapshot."""

_DELETIONS_AT_ONCE: Final = 8
_SECONDS: Final = 6.0  # the caller waits; the next deletion finds the rest

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Deleted:
    """The deleted snapshots, and the garbage with them in objects and bytes."""

    names: list[str]
    objects: int
    bytes: int


def delete_snapshots(bucket: Bucket, names: Sequence[str], clock: Clock = SYSTEM_CLOCK) -> Deleted:
    """Delete these snapshots of the partition, if they exist, and then the garbage.

    Must not be called while this worker uploads. Raises BucketRefused or BucketUnavailable.
    """
    for name in names:
        bucket.delete(bucket.folder.manifest(name))
    try:
        needed = _needed(bucket)
    except ManifestDamaged as error:
        log.error("garbage not deleted: a manifest can't be read", error=str(error))
        return Deleted(list(names), 0, 0)
    before = bucket.now() - GRACE
    garbage = [
        each
        for sha256, each in bucket.contents().items()
        if sha256 not in needed and each.modified < before
    ]
    gone = _delete(bucket, garbage, clock)
    _abort_unfinished(bucket, before)
    return Deleted(list(names), len(gone), sum(each.size for each in gone))


def _needed(bucket: Bucket) -> set[str]:
    """Return the contents that a manifest names.

    Raises ManifestDamaged if one can't be read.
    """
    manifests = (bucket.manifest(name) for name in bucket.manifest_names())
    return {each.sha256 for manifest in manifests if manifest for each in manifest.files}


def _delete(bucket: Bucket, garbage: Iterable[StoredObject], clock: Clock) -> list[StoredObject]:
    deadline = clock.deadline(_SECONDS)

    def delete(each: StoredObject) -> StoredObject | None:
        if deadline.expired:
            return None
        bucket.delete(each.key)
        return each

    with ThreadPoolExecutor(_DELETIONS_AT_ONCE) as threads:
        return [each for each in threads.map(delete, garbage) if each]


def _abort_unfinished(bucket: Bucket, before: datetime) -> None:
    """Abort the uploads in parts that a crash left.

    They take space, and no list of objects shows them.
    """
    try:
        for key, upload_id, begun in list(bucket.unfinished_uploads()):
            if begun < before:
                with s3_errors(f"aborting an unfinished upload to bucket {bucket.name}"):
                    bucket.client.abort_multipart_upload(
                        Bucket=bucket.name, Key=key, UploadId=upload_id
                    )
    except (
        StreamError
    ) as error:  # not every service lists them, and a lifecycle rule can abort them
        log.warning("unfinished uploads not aborted", error=str(error))
