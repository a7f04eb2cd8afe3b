"""Download a snapshot to an empty volume.

The files go to a separate directory. When all bytes are verified, it is renamed to the store's directory.

    db.restoring/    the files that have arrived; complete ones are kept when the worker is killed

The session calls this before it takes the partition over. Invariant: the identity is recorded after the store is in its
place, and is the snapshot's. So the catch-up finds out whether the topics are still the same, and reads the output that
came after the snapshot.
"""

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock
from typing import Final, NoReturn

import structlog
from s3transfer.manager import TransferManager

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.snapshots import S3Snapshots
from dedupe_crds.status.worker import DownloadPhase, DownloadStatus
from dedupe_worker.config import WorkerConfig
from dedupe_worker.errors import BucketRefused, BucketUnavailable, RestoreFailed
from dedupe_worker.snapshots.bucket import Bucket
from dedupe_worker.snapshots.digest_cache import sha256_of
from dedupe_worker.snapshots.folder import Folder
from dedupe_worker.snapshots.manifest import DATABASE, FileEntry, Manifest
from dedupe_worker.snapshots.s3_client import (
    s3_errors,
    short_timeout_client,
    transfer_client,
    transfers,
)
from dedupe_worker.status import WorkerState
from dedupe_worker.store.state_dir import Identity, StateDirectory, sync_to_disk

_FILES_AT_ONCE: Final = 8
_TRIES: Final = 2
_WAIT_SECONDS: Final = 0.2
_PATIENCE_SECONDS: Final = 300.0  # after that, a rebuild is better than a bucket that may answer
_LOG_SECONDS: Final = 10.0

log = structlog.get_logger()


class _Stopped(Exception):
    """The worker must stop."""


class Download:
    """Fills the state directory from the snapshot `name`."""

    def __init__(
        self,
        config: WorkerConfig,
        worker_state: WorkerState,
        name: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._stream, self._partition = config.stream_id, config.partition
        self._state: StateDirectory = config.state
        self._config = config
        self._worker_state = worker_state
        self._name = name
        self._clock = clock
        self._began = clock.monotonic()
        self._lock = Lock()
        self._bytes = 0

    @property
    def _s3(self) -> S3Snapshots:
        """Return the settings of the bucket. Raises RestoreFailed without any."""
        if self._config.restore_bucket is None:
            raise RestoreFailed("the stream has no spec.snapshots.s3, whose credentials reach it")
        return self._config.restore_bucket

    @property
    def _folder(self) -> Folder:
        return Folder.of(self._s3, self._stream, self._partition)

    def run(self, stop: Event) -> None:
        """Restore, or return early when `stop` is set.

        Raises RestoreFailed if another source has to be chosen, BucketUnavailable while the service does not answer,
        DiskFull or OSError. In any case, the next attempt resumes where this one ended.
        """
        try:
            manifest = self._manifest()
            self._worker_state.clear_failure()
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
        seconds = round(self._clock.monotonic() - self._began, 3)
        log.info("restored", snapshot=self._name, bytes=total, seconds=seconds)

    def _silent_seconds(self) -> float:
        """Return for how long nothing has arrived, over all attempts."""
        now = self._clock.monotonic()
        if self._worker_state.bucket_silent_since is None:
            self._worker_state.bucket_silent_since = now
        return now - self._worker_state.bucket_silent_since

    def _fail(self, error: Exception) -> NoReturn:
        self._show(DownloadPhase.FAILED, 0, error=str(error))
        raise RestoreFailed(
            f"snapshot {self._name} can't be restored: {error}; choose another source with --restore-from, "
            "or none to rebuild from the output topic"
        ) from error

    def _manifest(self) -> Manifest:
        # It shows no progress, so its timeout is short, and the next session retries it.
        manifest = Bucket(self._s3, self._folder, short_timeout_client(self._s3)).manifest(
            self._name
        )
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
        """Keep those of these files that an earlier attempt left; delete all others."""
        state = self._state
        if state.database.exists() and not state.restoring.exists():
            state.database.rename(
                state.restoring
            )  # moved into place by an earlier attempt, but without an identity
        state.discard_store()
        state.restoring.mkdir(parents=True, exist_ok=True)
        wanted = {self._target(each) for each in files}
        for path in state.restoring.iterdir():
            if path not in wanted:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _fetch_all(self, files: Sequence[FileEntry], total: int, stop: Event) -> None:
        """Download and verify all files. Raises _Stopped."""
        with (
            s3_errors(f"downloading from bucket {self._s3.bucket}"),
            _threads() as pool,
            # Its exit runs first: after an error it ends the transfers that the threads wait for.
            transfers(transfer_client(self._s3)) as manager,
        ):
            pending: set[Future[None]] = {pool.submit(self._fetch, manager, each) for each in files}
            logged = self._clock.monotonic()
            while pending:
                done, pending = wait(pending, _WAIT_SECONDS, FIRST_EXCEPTION)
                for each in done:
                    each.result()
                if stop.is_set():
                    raise _Stopped
                self._worker_state.heartbeat()
                self._show(DownloadPhase.RUNNING, total)
                if self._clock.monotonic() - logged > _LOG_SECONDS:
                    log.info("restoring", snapshot=self._name, bytes=self._bytes, total_bytes=total)
                    logged = self._clock.monotonic()

    def _fetch(self, manager: TransferManager, entry: FileEntry) -> None:
        """Download one file and verify it; a damaged one is downloaded a second time."""
        target = self._target(entry)
        key = self._folder.content(entry.sha256)
        for _ in range(_TRIES):
            if not _is_whole(target, entry):
                target.unlink(missing_ok=True)
                manager.download(self._s3.bucket, key, str(target)).result()
                self._worker_state.bucket_silent_since = None
        if not _is_whole(target, entry):
            raise RestoreFailed(
                f"{key} in bucket {self._s3.bucket} is damaged: its SHA-256 is not its name, or its size is not "
                f"{entry.size} bytes"
            )
        sync_to_disk(target)
        with self._lock:
            self._bytes += entry.size

    def _target(self, entry: FileEntry) -> Path:
        return self._state.restoring / entry.path.removeprefix(DATABASE)

    # -- completion -----------------------------------------------------------------------------

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
        self._worker_state.download = DownloadStatus(
            name=self._name,
            phase=phase,
            total_bytes=total,
            bytes=self._bytes,
            seconds=self._clock.monotonic() - self._began,
            error=error,
        )


def _is_whole(path: Path, entry: FileEntry) -> bool:
    return path.is_file() and path.stat().st_size == entry.size and sha256_of(path) == entry.sha256


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Run threads that start nothing new at the end of the block, and wait for them."""
    pool = ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="download")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
