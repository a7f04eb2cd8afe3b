"""Snapshots are deleted, and then what none of those that are left needs."""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from dedupe_kafka.errors import StreamError
from dedupe_worker.snapshots.bucket import Bucket, ManifestDamaged, StoredObject
from dedupe_worker.snapshots.s3_client import named

GRACE: Final = timedelta(hours=1)
"""What is younger may belong to a snapshot whose manifest is still to come, of a worker that nobody sees."""

_DELETIONS_AT_ONCE: Final = 8
_SECONDS: Final = 6.0  # the caller waits, and the rest is found the next time

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Deleted:
    """The snapshots that are gone, and how much was garbage then, in objects and bytes."""

    names: list[str]
    objects: int
    bytes: int


def delete_snapshots(bucket: Bucket, names: Sequence[str]) -> Deleted:
    """Delete these snapshots of the partition, those that are not there included, and then the garbage.

    Nothing else below the prefix is touched. Not to be called while this worker uploads. Raises BucketRefused or
    BucketUnavailable.
    """
    for name in names:
        bucket.delete(bucket.folder.manifest(name))
    try:
        needed = _needed(bucket)
    except ManifestDamaged as error:
        log.error("garbage is kept: a manifest can't be read", error=str(error))
        return Deleted(list(names), 0, 0)
    before = bucket.now() - GRACE
    garbage = [
        each
        for sha256, each in bucket.contents().items()
        if sha256 not in needed and each.modified < before
    ]
    gone = _delete(bucket, garbage)
    _give_up_unfinished(bucket, before)
    return Deleted(list(names), len(gone), sum(each.size for each in gone))


def _needed(bucket: Bucket) -> set[str]:
    """The contents that a manifest names. Raises ManifestDamaged if one can't be read."""
    manifests = (bucket.manifest(name) for name in bucket.manifest_names())
    return {each.sha256 for manifest in manifests if manifest for each in manifest.files}


def _delete(bucket: Bucket, garbage: Iterable[StoredObject]) -> list[StoredObject]:
    deadline = time.monotonic() + _SECONDS

    def delete(each: StoredObject) -> StoredObject | None:
        if time.monotonic() > deadline:
            return None
        bucket.delete(each.key)
        return each

    with ThreadPoolExecutor(_DELETIONS_AT_ONCE) as threads:
        return [each for each in threads.map(delete, garbage) if each]


def _give_up_unfinished(bucket: Bucket, before: datetime) -> None:
    """Parts of uploads that a crash left cost room and are in no list of objects."""
    try:
        for key, upload_id, begun in list(bucket.unfinished_uploads()):
            if begun < before:
                with named(f"giving up an unfinished upload to bucket {bucket.name}"):
                    bucket.client.abort_multipart_upload(
                        Bucket=bucket.name, Key=key, UploadId=upload_id
                    )
    except StreamError as error:  # not every service lists them, and a lifecycle rule can do it
        log.warning("unfinished uploads are left in the bucket", error=str(error))
