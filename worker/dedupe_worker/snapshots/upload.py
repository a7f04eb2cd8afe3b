"""Upload a checkpoint to the bucket.

First the missing contents, then the manifest; then it verifies that all of it is there. `UploadManager` calls this in a
separate thread. Invariant: the manifest is written last, so a snapshot that exists is complete.
"""

import base64
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Final

from s3transfer.manager import TransferManager
from s3transfer.subscribers import BaseSubscriber

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_worker.errors import SnapshotFailed
from dedupe_worker.snapshots.bucket import Bucket, ManifestDamaged, is_gone
from dedupe_worker.snapshots.digest_cache import DigestCache
from dedupe_worker.snapshots.manifest import FileEntry, Manifest
from dedupe_worker.snapshots.s3_client import PART_BYTES, s3_errors, transfers
from dedupe_worker.store.checkpoint import RECORD, CheckpointRecord

_WAIT_SECONDS: Final = 0.1

StopReason = Callable[[], str | None]
"""Called all the time: returns why to abort the upload, None to continue."""

Progress = Callable[[int, int, int], None]
"""Called from any thread with the bytes of all files, of new contents, and of those uploaded."""


def upload(
    bucket: Bucket,
    name: str,
    checkpoint: Path,
    digests: DigestCache,
    *,
    bandwidth: int,
    stop_reason: StopReason,
    on_progress: Progress,
    clock: Clock = SYSTEM_CLOCK,
) -> Manifest:
    """Upload a checkpoint under a name, and replace the snapshot that had it.

    `bandwidth` is in bytes a second. Raises BucketRefused, BucketUnavailable, SnapshotFailed, DiskFull or OSError;
    the older snapshot of that name is then unchanged.
    """
    kept = _kept(bucket)
    files = [_described(each, checkpoint, digests, kept) for each in _files(checkpoint)]
    digests.save()
    manifest = Manifest(
        name=name,
        record=CheckpointRecord.model_validate_json((checkpoint / RECORD).read_bytes()),
        files=files,
    )
    new = {each.sha256: each for each in files if kept.get(each.sha256) != each.size}
    counter = _Counter(manifest.bytes, sum(each.size for each in new.values()), on_progress)
    with transfers(bucket.client, most_bytes_a_second=bandwidth) as manager:
        _send(
            bucket, checkpoint, new.values(), manager, counter, stop_reason=stop_reason, clock=clock
        )
    _check(stop_reason)
    bucket.write_manifest(manifest)
    _verify(bucket, manifest)
    return manifest


def _kept(bucket: Bucket) -> dict[str, int]:
    """Return size by SHA-256 of the contents that a manifest in the bucket names.

    A content without a manifest may be deleted as garbage at any moment, and is uploaded again.
    """
    referred: set[str] = set()
    for name in bucket.manifest_names():
        try:
            manifest = bucket.manifest(name)
        except ManifestDamaged:
            continue
        referred.update(each.sha256 for each in (manifest.files if manifest else ()))
    if not referred:
        return {}
    return {digest: each.size for digest, each in bucket.contents().items() if digest in referred}


def _files(checkpoint: Path) -> list[Path]:
    return sorted(each for each in checkpoint.rglob("*") if each.is_file())


def _described(
    path: Path, checkpoint: Path, digests: DigestCache, kept: dict[str, int]
) -> FileEntry:
    size = path.stat().st_size
    digest = digests.remembered(path)
    if digest is None or kept.get(digest) != size:  # a file is uploaded under its present digest
        digest = digests.computed(path)
    return FileEntry(path=path.relative_to(checkpoint).as_posix(), size=size, sha256=digest)


def _send(
    bucket: Bucket,
    checkpoint: Path,
    files: Iterable[FileEntry],
    manager: TransferManager,
    counter: "_Counter",
    *,
    stop_reason: StopReason,
    clock: Clock,
) -> None:
    """Upload files in parallel.

    The first failure ends the upload, and with it the manager. Raises as `upload`.
    """
    with s3_errors(f"uploading to bucket {bucket.name}"):
        futures = [
            manager.upload(
                str(checkpoint / each.path),
                bucket.name,
                bucket.folder.content(each.sha256),
                extra_args=bucket.upload_arguments(
                    each.size, base64.b64encode(bytes.fromhex(each.sha256)).decode(), PART_BYTES
                ),
                subscribers=[counter],
            )
            for each in files
        ]
        for future in futures:
            while not future.done():
                _check(stop_reason)
                clock.sleep(_WAIT_SECONDS)
            _finish(future.result)


def _check(stop_reason: StopReason) -> None:
    if why := stop_reason():
        raise SnapshotFailed(why)


def _finish(result: Callable[[], object]) -> None:
    try:
        result()
    except Exception as error:
        # If the answer to a request that completed an upload in parts was lost, the repeated request finds no such
        # upload. The contents are verified in any case.
        if not is_gone(error):
            raise


def _verify(bucket: Bucket, manifest: Manifest) -> None:
    """Check that every content is there, with its size.

    Otherwise delete the manifest and raise SnapshotFailed.
    """
    there = bucket.contents()
    missing = [
        each
        for each in manifest.files
        if each.sha256 not in there or there[each.sha256].size != each.size
    ]
    if not missing:
        return
    bucket.delete(bucket.folder.manifest(manifest.name))
    raise SnapshotFailed(
        f"after the upload of {manifest.name}, {len(missing)} of {len(manifest.files)} files are not in bucket "
        f"{bucket.name}, such as {bucket.folder.content(missing[0].sha256)}; it is uploaded again"
    )


class _Counter(BaseSubscriber):
    """Adds up the progress of all transfers.

    A part that is sent again is first subtracted, by a negative number.
    """

    def __init__(self, total: int, new: int, on_progress: Progress) -> None:
        self._lock = Lock()
        self._total, self._new, self._sent = total, new, 0
        self._on_progress = on_progress
        on_progress(total, new, 0)

    def on_progress(self, future: object, bytes_transferred: int, **_: object) -> None:  # noqa: ARG002 (s3transfer's)
        """Add up; s3transfer calls this."""
        with self._lock:
            self._sent += bytes_transferred
            self._on_progress(self._total, self._new, self._sent)
