"""An empty volume is filled from a snapshot: downloaded beside its place, verified to the last byte, then moved there.

    db.restoring/    the files that have arrived; those that are whole are kept when the worker is killed

The identity is recorded after the store is in its place, and is the snapshot's: reconciling then finds out whether the
topics are still those, and reads what came after the snapshot.
"""

import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock
from typing import Final, NoReturn

import structlog
from s3transfer.manager import TransferManager

from dedupe_crds.status.worker import DownloadPhase, DownloadStatus
from dedupe_worker.config import WorkerConfig
from dedupe_worker.errors import BucketRefused, BucketUnavailable, RestoreFailed
from dedupe_worker.snapshots.bucket import Bucket, Folder
from dedupe_worker.snapshots.digest_cache import sha256_of
from dedupe_worker.snapshots.manifest import DATABASE, FileEntry, Manifest
from dedupe_worker.snapshots.s3_client import named, question_client, transfer_client, transfers
from dedupe_worker.status import Board
from dedupe_worker.store.state_dir import Identity, StateDirectory, sync_to_disk

_FILES_AT_ONCE: Final = 8
_TRIES: Final = 2
_WAIT_SECONDS: Final = 0.2
_PATIENCE_SECONDS: Final = 300.0  # a rebuild begun by then is better than a bucket that may answer
_LOG_SECONDS: Final = 10.0

log = structlog.get_logger()


class _Stopped(Exception):
    """The worker was told to stop."""


class Restore:
    """Fills the state directory from the snapshot `name`."""

    def __init__(self, config: WorkerConfig, board: Board, name: str) -> None:
        assert config.bucket is not None  # noqa: S101 (the configuration was refused without)
        self._stream, self._partition = config.stream_id, config.partition
        self._state: StateDirectory = config.state
        self._s3 = config.bucket
        self._folder = Folder.of(self._s3, config.stream_id, config.partition)
        self._board = board
        self._name = name
        self._began = time.monotonic()
        self._lock = Lock()
        self._bytes = 0

    def run(self, stop: Event) -> None:
        """Restore, or return early when `stop` is set.

        Raises RestoreFailed when another source has to be chosen, BucketUnavailable while the service does not
        answer, DiskFull or OSError. Whatever happens, the next try goes on where this one ended.
        """
        try:
            manifest = self._manifest()
            self._board.recover()
            files = [each for each in manifest.files if each.path.startswith(DATABASE)]
            total = sum(each.size for each in files)
            self._show(DownloadPhase.RUNNING, total)
            log.info("restoring", snapshot=self._name, files=len(files), bytes=total)
            self._make_room(files)
            self._fetch_all(files, total, stop)
            self._put_in_place(manifest)
        except _Stopped:
            return
        except BucketUnavailable as error:
            if self._silent_seconds() < _PATIENCE_SECONDS:
                raise
            self._fail(error)
        except (BucketRefused, RestoreFailed) as error:
            self._fail(error)
        self._show(DownloadPhase.COMPLETED, total)
        seconds = round(time.monotonic() - self._began, 3)
        log.info("restored", snapshot=self._name, bytes=total, seconds=seconds)

    def _silent_seconds(self) -> float:
        """For how long nothing has come, over all tries."""
        now = time.monotonic()
        if self._board.bucket_silent_since is None:
            self._board.bucket_silent_since = now
        return now - self._board.bucket_silent_since

    def _fail(self, error: Exception) -> NoReturn:
        self._show(DownloadPhase.FAILED, 0, error=str(error))
        raise RestoreFailed(
            f"snapshot {self._name} can't be restored: {error}; choose another source with --restore-from, "
            "or none to rebuild from the output topic"
        ) from error

    def _manifest(self) -> Manifest:
        # Nothing shows that this goes on while it does, so it is soon given up, and tried again with the session.
        manifest = Bucket(self._s3, self._folder, question_client(self._s3)).manifest(self._name)
        if manifest is None:
            key = self._folder.manifest(self._name)
            raise RestoreFailed(f"there is no {key} in bucket {self._s3.bucket}")
        record = manifest.record
        if (record.stream, record.partition) != (self._stream, self._partition):
            raise RestoreFailed(
                f"it is of {record.stream} partition {record.partition}, "
                f"not of {self._stream} partition {self._partition}"
            )
        return manifest

    # -- files -----------------------------------------------------------------------------------

    def _make_room(self, files: Sequence[FileEntry]) -> None:
        """Keep what an earlier try has left of these files, and nothing else."""
        state = self._state
        if state.database.exists() and not state.restoring.exists():
            state.database.rename(state.restoring)  # in its place already, but without an identity
        state.discard_store()
        state.restoring.mkdir(parents=True, exist_ok=True)
        wanted = {self._target(each) for each in files}
        for path in state.restoring.iterdir():
            if path not in wanted:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _fetch_all(self, files: Sequence[FileEntry], total: int, stop: Event) -> None:
        """Have all be there and verified. Raises _Stopped."""
        with (
            named(f"downloading from bucket {self._s3.bucket}"),
            _threads() as pool,
            # Left first: an error ends what the threads wait for.
            transfers(transfer_client(self._s3)) as manager,
        ):
            pending: set[Future[None]] = {pool.submit(self._fetch, manager, each) for each in files}
            logged = time.monotonic()
            while pending:
                done, pending = wait(pending, _WAIT_SECONDS, FIRST_EXCEPTION)
                for each in done:
                    each.result()
                if stop.is_set():
                    raise _Stopped
                self._board.beat()
                self._show(DownloadPhase.RUNNING, total)
                if time.monotonic() - logged > _LOG_SECONDS:
                    log.info("restoring", snapshot=self._name, bytes=self._bytes, total_bytes=total)
                    logged = time.monotonic()

    def _fetch(self, manager: TransferManager, entry: FileEntry) -> None:
        """Have one file arrive whole; one that is damaged is asked for once more."""
        target = self._target(entry)
        key = self._folder.content(entry.sha256)
        for _ in range(_TRIES):
            if not _is_whole(target, entry):
                target.unlink(missing_ok=True)
                manager.download(self._s3.bucket, key, str(target)).result()
                self._board.bucket_silent_since = None
        if not _is_whole(target, entry):
            raise RestoreFailed(
                f"{key} in bucket {self._s3.bucket} is damaged: it is not what its name says, or not of "
                f"{entry.size} bytes"
            )
        sync_to_disk(target)
        with self._lock:
            self._bytes += entry.size

    def _target(self, entry: FileEntry) -> Path:
        return self._state.restoring / entry.path.removeprefix(DATABASE)

    # -- the end ---------------------------------------------------------------------------------

    def _put_in_place(self, manifest: Manifest) -> None:
        sync_to_disk(self._state.restoring)
        self._state.restoring.rename(self._state.database)
        sync_to_disk(self._state.root)
        record = manifest.record
        self._state.record(
            Identity(
                stream=record.stream,
                partition=record.partition,
                input_topic_id=record.input_topic_id,
                output_topic_id=record.output_topic_id,
                id_source=record.id_source,
            )
        )

    def _show(self, phase: DownloadPhase, total: int, *, error: str | None = None) -> None:
        self._board.download = DownloadStatus(
            name=self._name,
            phase=phase,
            total_bytes=total,
            bytes=self._bytes,
            seconds=time.monotonic() - self._began,
            error=error,
        )


def _is_whole(path: Path, entry: FileEntry) -> bool:
    return path.is_file() and path.stat().st_size == entry.size and sha256_of(path) == entry.sha256


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Threads that begin nothing more when the block is left, and have ended after it."""
    pool = ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="download")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
