"""Snapshots in a bucket: the cost of each, and the speed of a restore.

A restore is compared with what the machine does with the same bytes otherwise: written to the disk and synced,
without a bucket; and the same objects downloaded to files by as many threads, without any check. Server and worker
share this machine, so the server first reads from memory or the disk what the worker downloads.
"""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed, Worker
from benchmarks.harness.s3_server import BUCKET, S3Server
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import Sender, tiny_value
from dedupe_crds.status.worker import UploadPhase, UploadStatus
from dedupe_worker.snapshots.folder import Folder
from dedupe_worker.snapshots.manifest import Manifest

_THREADS: Final = 8  # as many files as a worker fetches at once
_BLOCK_BYTES: Final = 8 << 20
_DEADLINE_SECONDS: Final = 1800.0


class Upload(Model):
    """A snapshot; its `manifest` is a key of the bucket.

    `added` of its `keys` came since the snapshot before. Of its `bytes`, `new_bytes` were uploaded, in `seconds`
    from the request until all was verified.
    """

    name: str
    manifest: str
    keys: int
    added: int
    bytes: int
    new_bytes: int
    seconds: float

    @property
    def added_share(self) -> float:
        """Of the ids, those that came since the snapshot before."""
        return self.added / self.keys

    @property
    def uploaded_share(self) -> float:
        """Of the bytes, those that were uploaded."""
        return self.new_bytes / self.bytes


class Restore(Model):
    """A start from a snapshot of `bytes`.

    `seconds` are from the first request until the files were in their place, verified and synced; `ready_seconds`
    from the start of the process until it was ready. `write_seconds` and `download_seconds` are what the same bytes
    take otherwise, see above.
    """

    bytes: int
    seconds: float
    ready_seconds: float
    write_seconds: float
    download_seconds: float

    @property
    def per_second(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds


def measure_uploads(
    testbed: Testbed,
    worker: Worker,
    source: str,
    *,
    unsent: int,
    shares: Sequence[float],
    rounds: int,
) -> list[Upload]:
    """Measure a snapshot of all, then for each share `rounds` more.

    Each is taken after that many new ids. Their messages are numbered from `unsent` on. Raises BenchmarkFailed.
    """
    keys = worker.status().window.keys
    made = [_snapshot(worker, "all", added=keys)]
    sender = Sender(testbed.bootstrap_servers, source)
    for share in shares:
        added = int(keys * share)
        for _ in range(rounds):
            sender.send(np.arange(unsent, unsent + added), tiny_value)
            unsent += added
            worker.wait_until_committed(testbed.end_offset(source), _DEADLINE_SECONDS)
            made.append(_snapshot(worker, f"after-{len(made)}", added=added))
    return made


def measure_restore(
    server: S3Server, start: Callable[[str], Worker], snapshot: Upload, scratch: Path
) -> Restore:
    """Have a worker fill its empty state directory. Raises BenchmarkFailed."""
    with start(snapshot.name) as worker:
        worker.wait_until_ready(_DEADLINE_SECONDS)
        ready_seconds = time.monotonic() - worker.began
        done = worker.status().download
        state = worker.state_dir
    if done is None:
        raise BenchmarkFailed("the worker is ready without a restore")
    shutil.rmtree(state)
    beside = scratch / "plainly"
    return Restore(
        bytes=done.total_bytes,
        seconds=done.seconds,
        ready_seconds=ready_seconds,
        write_seconds=_timed(beside, partial(_write, done.total_bytes)),
        download_seconds=_timed(beside, partial(_download, server, snapshot.manifest)),
    )


def _snapshot(worker: Worker, name: str, *, added: int) -> Upload:
    """Take a snapshot, and wait until it is in the bucket."""
    began = time.monotonic()
    worker.post("/snapshots", name=name)

    def ended() -> UploadStatus | None:
        status = worker.status().upload
        return status if status and status.phase is not UploadPhase.RUNNING else None

    worker.wait_until(
        lambda: ended() is not None,
        f"snapshot {name} has ended",
        deadline_seconds=_DEADLINE_SECONDS,
    )
    seconds = time.monotonic() - began
    done = ended()
    if done is None or done.checkpoint is None or done.phase is UploadPhase.FAILED:
        raise BenchmarkFailed(f"snapshot {name} failed: {done}")
    return Upload(
        name=name,
        manifest=done.handle or "",
        keys=done.checkpoint.keys,
        added=added,
        bytes=done.total_bytes,
        new_bytes=done.new_bytes,
        seconds=seconds,
    )


# -- the same bytes otherwise --------------------------------------------------------------------


def _timed(directory: Path, fill: Callable[[Path], None]) -> float:
    """Return the seconds in which a directory is filled; it is removed then."""
    directory.mkdir()
    began = time.monotonic()
    fill(directory)
    seconds = time.monotonic() - began
    shutil.rmtree(directory)
    return seconds


def _write(size: int, directory: Path) -> None:
    block = os.urandom(_BLOCK_BYTES)
    with (directory / "file").open("wb", buffering=0) as file:
        for start in range(0, size, len(block)):
            file.write(block[: size - start])
        os.fsync(file.fileno())


def _download(server: S3Server, manifest: str, directory: Path) -> None:
    """Fetch the files of a snapshot."""
    client = server.client()
    content = client.get_object(Bucket=BUCKET, Key=manifest)["Body"].read()
    folder = Folder(manifest.partition("/snapshots/")[0])
    digests = {each.sha256 for each in Manifest.model_validate_json(content).files}

    def fetch(digest: str) -> None:
        client.download_file(BUCKET, folder.content(digest), str(directory / digest))

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(fetch, digests))
