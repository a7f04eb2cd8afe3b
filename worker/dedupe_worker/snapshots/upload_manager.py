"""This worker's side of snapshots in a bucket: one upload at a time, beside the loop, and what is asked of the bucket.

An upload lives longer than a session: the loop may fail and begin again meanwhile.
"""

import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final

import structlog

from dedupe_crds.spec.store import S3Snapshots
from dedupe_crds.status.worker import CheckpointStatus, UploadPhase, UploadStatus
from dedupe_kafka.errors import StreamError
from dedupe_worker.errors import UploadRunning
from dedupe_worker.snapshots.bucket import Bucket, Folder
from dedupe_worker.snapshots.digest_cache import Digests
from dedupe_worker.snapshots.garbage_collection import Deleted, delete_snapshots
from dedupe_worker.snapshots.s3_client import question_client, transfer_client
from dedupe_worker.snapshots.upload import upload
from dedupe_worker.status import Board
from dedupe_worker.store.checkpoint import CheckpointRecord
from dedupe_worker.store.state_dir import StateDirectory

_REST_SECONDS: Final = 20.0

log = structlog.get_logger()


class SnapshotKeeper:
    """Used from the loop's thread and from HTTP threads."""

    def __init__(
        self, s3: S3Snapshots, board: Board, state: StateDirectory, *, deadline: timedelta
    ) -> None:
        self._s3 = s3
        self._deadline = deadline
        self._board = board
        self._state = state
        self._folder = Folder.of(s3, board.stream, board.partition)
        self._one_at_a_time = Lock()
        self._unwanted = Event()
        self._failed_at = 0.0

    # -- uploads ---------------------------------------------------------------------------------

    def known(self, name: str) -> UploadStatus | None:
        """The upload of that name, if it need not be begun: it runs, is complete, or failed a moment ago.

        Raises UploadRunning while there is another one.
        """
        last = self._board.upload
        if last is None or last.name != name:
            self.refuse_while_uploading()
            return None
        rests = time.monotonic() < self._failed_at + _REST_SECONDS
        return None if last.phase is UploadPhase.FAILED and not rests else last

    def refuse_while_uploading(self) -> None:
        """Raises UploadRunning while the files of a checkpoint are read."""
        last = self._board.upload
        if last and last.phase is UploadPhase.RUNNING:
            raise UploadRunning(self._busy)

    def begin(self, name: str, made: CheckpointStatus) -> UploadStatus:
        """Upload a checkpoint, in a thread of its own. Raises UploadRunning."""
        if not self._one_at_a_time.acquire(blocking=False):
            raise UploadRunning(self._busy)
        begun = UploadStatus(
            name=name,
            phase=UploadPhase.RUNNING,
            checkpoint=made,
            handle=self._folder.manifest(name),
            total_bytes=made.bytes,
        )
        self._unwanted.clear()
        self._board.upload = begun
        Thread(target=self._run, args=(begun, Path(made.path)), name="upload", daemon=True).start()
        return begun

    def _run(self, begun: UploadStatus, checkpoint: Path) -> None:
        log.info("uploading a snapshot", name=begun.name, handle=begun.handle)
        try:
            self._upload(begun.name, checkpoint)
        except Exception as error:  # noqa: BLE001 (the snapshot's failure, and not the worker's)
            self._fail(error)
        else:
            log.info("snapshot is in the bucket", **self._figures())
            self._update(phase=UploadPhase.COMPLETED)
        finally:
            self._one_at_a_time.release()

    def _upload(self, name: str, checkpoint: Path) -> None:
        began = time.monotonic()

        def give_up() -> str | None:
            if self._unwanted.is_set():
                return "it is no longer wanted"
            late = time.monotonic() - began > self._deadline.total_seconds()
            return "it is not complete within spec.snapshots.deadline" if late else None

        upload(
            Bucket(self._s3, self._folder, transfer_client(self._s3)),
            name,
            checkpoint,
            Digests(self._state.root / "digests.json"),
            bandwidth=self._s3.bandwidth,
            give_up=give_up,
            on_progress=lambda total, new, sent: self._update(
                total_bytes=total, new_bytes=new, uploaded_bytes=sent
            ),
        )

    def _fail(self, error: Exception) -> None:
        reason = error.reason if isinstance(error, StreamError) else type(error).__name__
        self._failed_at = time.monotonic()
        self._board.errors[reason] += 1
        self._update(phase=UploadPhase.FAILED, error=f"{reason}: {error}")
        log.error("snapshot failed", reason=reason, error=str(error), **self._figures())

    def _update(self, **fields: object) -> None:
        if self._board.upload:
            self._board.upload = self._board.upload.model_copy(update=fields)

    def _figures(self) -> dict[str, object]:
        fields = {"name", "handle", "total_bytes", "new_bytes", "uploaded_bytes"}
        return self._board.upload.model_dump(include=fields) if self._board.upload else {}

    # -- questions -------------------------------------------------------------------------------

    def check(self, name: str) -> CheckpointRecord | None:
        """What a snapshot is complete up to; None if it is not there. Raises BucketRefused or BucketUnavailable."""
        manifest = self._for_questions().manifest(name)
        return manifest.record if manifest else None

    def delete(self, names: Sequence[str]) -> Deleted:
        """See `delete_snapshots`. Raises UploadRunning, too: what is uploaded now has no manifest yet.

        The upload of one of these is given up, and they can be deleted when that has ended.
        """
        last = self._board.upload
        if last and last.phase is UploadPhase.RUNNING and last.name in names:
            self._unwanted.set()
        if not self._one_at_a_time.acquire(blocking=False):
            raise UploadRunning(self._busy)
        try:
            deleted = delete_snapshots(self._for_questions(), names)
        finally:
            self._one_at_a_time.release()
        log.info(
            "snapshots deleted", names=deleted.names, objects=deleted.objects, bytes=deleted.bytes
        )
        return deleted

    def _for_questions(self) -> Bucket:
        return Bucket(self._s3, self._folder, question_client(self._s3))

    @property
    def _busy(self) -> str:
        last = self._board.upload
        if last and last.phase is UploadPhase.RUNNING:
            return f"snapshot {last.name} is being uploaded; ask again when that has ended"
        return "snapshots are being deleted; ask again when that has ended"
