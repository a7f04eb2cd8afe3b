"""A checkpoint goes to the bucket: what is not there yet, then the manifest, then a look whether all is there."""

import base64
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Final

from s3transfer.manager import TransferManager
from s3transfer.subscribers import BaseSubscriber

from dedupe_worker.errors import SnapshotFailed
from dedupe_worker.snapshots.bucket import Bucket, ManifestDamaged, is_gone
from dedupe_worker.snapshots.digest_cache import Digests
from dedupe_worker.snapshots.manifest import FileEntry, Manifest
from dedupe_worker.snapshots.s3_client import PART_BYTES, named, transfers
from dedupe_worker.store.checkpoint import RECORD, CheckpointRecord

_WAIT_SECONDS: Final = 0.1

GiveUp = Callable[[], str | None]
"""Asked all the time: why the upload is to end before its end, None as long as it is not."""

Progress = Callable[[int, int, int], None]
"""Called with the bytes of the whole, of what is new, and of what of that is uploaded; from any thread."""


def upload(
    bucket: Bucket,
    name: str,
    checkpoint: Path,
    digests: Digests,
    *,
    bandwidth: int,
    give_up: GiveUp,
    on_progress: Progress,
) -> Manifest:
    """Bring a checkpoint to the bucket under a name, in place of what had that name.

    `bandwidth` is in bytes a second. Raises BucketRefused, BucketUnavailable, SnapshotFailed, DiskFull or OSError;
    what was there before is as it was.
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
        _send(bucket, checkpoint, new.values(), manager, counter, give_up=give_up)
    _check(give_up)
    bucket.write_manifest(manifest)
    _verify(bucket, manifest)
    return manifest


def _kept(bucket: Bucket) -> dict[str, int]:
    """Size by SHA-256 of what is in the bucket and named by a manifest, and so no garbage to anybody.

    A content without one may be deleted as garbage at any moment, and is uploaded again.
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


def _described(path: Path, checkpoint: Path, digests: Digests, kept: dict[str, int]) -> FileEntry:
    size = path.stat().st_size
    digest = digests.remembered(path)
    if digest is None or kept.get(digest) != size:  # what is uploaded is named by what it holds now
        digest = digests.computed(path)
    return FileEntry(path=path.relative_to(checkpoint).as_posix(), size=size, sha256=digest)


def _send(
    bucket: Bucket,
    checkpoint: Path,
    files: Iterable[FileEntry],
    manager: TransferManager,
    counter: "_Counter",
    *,
    give_up: GiveUp,
) -> None:
    """Upload files in parallel; the first that fails ends it, and with it the manager. Raises as `upload`."""
    with named(f"uploading to bucket {bucket.name}"):
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
                _check(give_up)
                time.sleep(_WAIT_SECONDS)
            _finish(future.result)


def _check(give_up: GiveUp) -> None:
    if why := give_up():
        raise SnapshotFailed(why)


def _finish(result: Callable[[], object]) -> None:
    try:
        result()
    except Exception as error:
        # An upload in parts that was completed, by a request whose answer was lost, is not known when it is
        # completed once more. Whether the content is there is looked at in any case.
        if not is_gone(error):
            raise


def _verify(bucket: Bucket, manifest: Manifest) -> None:
    """Raises SnapshotFailed if a content is not there as it should be; the manifest is withdrawn."""
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
        f"{bucket.name}, such as {bucket.folder.content(missing[0].sha256)}; it is made again"
    )


class _Counter(BaseSubscriber):
    """Adds up what all transfers tell of; a part that is sent again is taken off first, by a negative number."""

    def __init__(self, total: int, new: int, on_progress: Progress) -> None:
        self._lock = Lock()
        self._total, self._new, self._sent = total, new, 0
        self._on_progress = on_progress
        on_progress(total, new, 0)

    def on_progress(self, future: object, bytes_transferred: int, **_: object) -> None:  # noqa: ARG002 (s3transfer's)
        """Called by s3transfer."""
        with self._lock:
            self._sent += bytes_transferred
            self._on_progress(self._total, self._new, self._sent)
