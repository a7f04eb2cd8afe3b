"""The upload manager: one snapshot upload at a time, and queries to the bucket.

The HTTP API calls `make_snapshot`: the loop's thread writes a checkpoint, then a thread uploads it (upload.py).
Invariant: while an upload reads a checkpoint's files, no other checkpoint replaces it. An upload outlives a session:
the loop may fail and start again in the meantime.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, Protocol

import structlog

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.snapshots import S3Snapshots
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_crds.status.worker import CheckpointStatus, UploadPhase, UploadStatus
from dedupe_kafka.errors import StreamError
from dedupe_worker.errors import UploadRunning
from dedupe_worker.snapshots.bucket import Bucket
from dedupe_worker.snapshots.digest_cache import DigestCache
from dedupe_worker.snapshots.folder import Folder
from dedupe_worker.snapshots.garbage_collection import Deleted, delete_snapshots
from dedupe_worker.snapshots.s3_client import short_timeout_client, transfer_client
from dedupe_worker.snapshots.upload import upload
from dedupe_worker.status import WorkerState
from dedupe_worker.store.checkpoint import CheckpointRecord
from dedupe_worker.store.state_dir import StateDirectory

_REST_SECONDS: Final = 20.0
"""For so long after a failure the same request is answered with that failure."""

log = structlog.get_logger()


class Checkpointing(Protocol):
    """The store's command that the manager needs, on the loop's thread."""

    def checkpoint(self) -> CheckpointStatus | None:
        """Write a checkpoint; None while the store is still empty."""


OnLoop = Callable[[Callable[[Checkpointing], UploadStatus | None]], UploadStatus | None]
"""Runs a command on the loop's thread, and returns or raises what it does."""


class UploadManager:
    """The uploads and queries of one worker.

    Used from the loop's thread and from HTTP threads. A snapshot may lie elsewhere than the settings say now: then its
    `location` is given, and the rest of the settings is used there.
    """

    def __init__(
        self,
        s3: S3Snapshots,
        worker_state: WorkerState,
        state: StateDirectory,
        *,
        deadline: timedelta,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._s3 = s3
        self._target = s3  # of the last upload
        self._deadline = deadline
        self._worker_state = worker_state
        self._state = state
        self._clock = clock
        self._one_at_a_time = Lock()
        self._unwanted = Event()
        self._failed_at = 0.0

    # -- uploads ---------------------------------------------------------------------------------

    def make_snapshot(
        self, name: str, on_loop: OnLoop, location: CopyLocation | None = None
    ) -> UploadStatus | None:
        """Return the upload of this name, begun unless it is known.

        None while the store is still empty.

        A known upload is answered without the loop, which may be busy or failed. Raises UploadRunning while there is
        another upload, and what `on_loop` raises.
        """
        target = self._at(location)
        known = self._known(name, target)
        return known or on_loop(partial(self._checkpoint_and_upload, name, target))

    def refuse_while_uploading(self) -> None:
        """Raise UploadRunning while the files of a checkpoint are read."""
        last = self._worker_state.upload
        if last and last.phase is UploadPhase.RUNNING:
            raise UploadRunning(self._busy)

    def _checkpoint_and_upload(
        self, name: str, target: S3Snapshots, store: Checkpointing
    ) -> UploadStatus | None:
        """Do it on the loop's thread, unless another request has in the meantime."""
        if known := self._known(name, target):
            return known
        made = store.checkpoint()
        return self._begin(name, target, made) if made else None

    def _known(self, name: str, target: S3Snapshots) -> UploadStatus | None:
        """Return the upload of this name if it need not begin.

        It runs, is complete, or failed a moment ago.

        Raises UploadRunning while there is another upload.
        """
        last = self._worker_state.upload
        if last is None or last.name != name or self._target != target:
            self.refuse_while_uploading()
            return None
        rests = self._clock.monotonic() < self._failed_at + _REST_SECONDS
        return None if last.phase is UploadPhase.FAILED and not rests else last

    def _begin(self, name: str, target: S3Snapshots, made: CheckpointStatus) -> UploadStatus:
        """Upload a checkpoint in a separate thread. Raises UploadRunning."""
        if not self._one_at_a_time.acquire(blocking=False):
            raise UploadRunning(self._busy)
        begun = UploadStatus(
            name=name,
            phase=UploadPhase.RUNNING,
            checkpoint=made,
            handle=self._folder(target).manifest(name),
            total_bytes=made.bytes,
        )
        self._unwanted.clear()
        self._target = target
        self._worker_state.upload = begun
        Thread(target=self._run, args=(begun, Path(made.path)), name="upload", daemon=True).start()
        return begun

    def _run(self, begun: UploadStatus, checkpoint: Path) -> None:
        bucket = self._target.bucket
        log.info("uploading a snapshot", name=begun.name, bucket=bucket, handle=begun.handle)
        try:
            self._upload(begun.name, checkpoint)
        except Exception as error:  # noqa: BLE001 (the snapshot has failed, and not the worker)
            self._fail(error)
        else:
            log.info("snapshot is in the bucket", **self._figures())
            self._update(phase=UploadPhase.COMPLETED)
        finally:
            self._one_at_a_time.release()

    def _upload(self, name: str, checkpoint: Path) -> None:
        began = self._clock.monotonic()

        def stop_reason() -> str | None:
            if self._unwanted.is_set():
                return "it is no longer wanted"
            late = self._clock.monotonic() - began > self._deadline.total_seconds()
            return "it is not complete within spec.snapshots.deadline" if late else None

        upload(
            Bucket(self._target, self._folder(self._target), transfer_client(self._target)),
            name,
            checkpoint,
            DigestCache(self._state.root / "digests.json"),
            bandwidth=self._target.bandwidth,
            stop_reason=stop_reason,
            clock=self._clock,
            on_progress=lambda total, new, sent: self._update(
                total_bytes=total, new_bytes=new, uploaded_bytes=sent
            ),
        )

    def _fail(self, error: Exception) -> None:
        reason = error.reason if isinstance(error, StreamError) else type(error).__name__
        self._failed_at = self._clock.monotonic()
        self._worker_state.errors[reason] += 1
        self._update(phase=UploadPhase.FAILED, error=f"{reason}: {error}")
        log.error("snapshot failed", reason=reason, error=str(error), **self._figures())

    def _update(self, **fields: object) -> None:
        if self._worker_state.upload:
            self._worker_state.upload = self._worker_state.upload.model_copy(update=fields)

    def _figures(self) -> dict[str, object]:
        fields = {"name", "handle", "total_bytes", "new_bytes", "uploaded_bytes"}
        return (
            self._worker_state.upload.model_dump(include=fields)
            if self._worker_state.upload
            else {}
        )

    # -- queries ---------------------------------------------------------------------------------

    def check(self, name: str, location: CopyLocation | None = None) -> CheckpointRecord | None:
        """Return the record of a snapshot; None if there is none.

        Raises BucketRefused or BucketUnavailable.
        """
        manifest = self._for_queries(location).manifest(name)
        return manifest.record if manifest else None

    def delete(self, names: Sequence[str], location: CopyLocation | None = None) -> Deleted:
        """Delete snapshots, see `delete_snapshots`.

        Also raises UploadRunning: a running upload has no manifest yet.

        If one of these is being uploaded, the upload is aborted; they can be deleted when it has ended.
        """
        last = self._worker_state.upload
        if last and last.phase is UploadPhase.RUNNING and last.name in names:
            self._unwanted.set()
        if not self._one_at_a_time.acquire(blocking=False):
            raise UploadRunning(self._busy)
        try:
            deleted = delete_snapshots(self._for_queries(location), names, self._clock)
            if last and last.name in names and self._target == self._at(location):
                self._worker_state.upload = None  # another snapshot may get that name
        finally:
            self._one_at_a_time.release()
        log.info(
            "snapshots deleted", names=deleted.names, objects=deleted.objects, bytes=deleted.bytes
        )
        return deleted

    def _for_queries(self, location: CopyLocation | None) -> Bucket:
        s3 = self._at(location)
        return Bucket(s3, self._folder(s3), short_timeout_client(s3))

    def _at(self, location: CopyLocation | None) -> S3Snapshots:
        return location.settings(self._s3) if location else self._s3

    def _folder(self, s3: S3Snapshots) -> Folder:
        return Folder.of(s3, self._worker_state.stream, self._worker_state.partition)

    @property
    def _busy(self) -> str:
        last = self._worker_state.upload
        if last and last.phase is UploadPhase.RUNNING:
            return f"snapshot {last.name} is being uploaded; try again when that has ended"
        return "snapshots are being deleted; try again when that has ended"
