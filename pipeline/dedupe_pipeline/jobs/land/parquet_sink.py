"""Add whole batches to a directory of Parquet files, each exactly once.

The job `land` calls it. The output directory contains only:

    date=2026-11-21/batch=17/part-….parquet      the records of batch 17 with a timestamp of that day
    .landing.json                                the checkpoint that counts these batches, and the topic

A batch is first written to a staging directory elsewhere, then each of its dates is moved here by one rename. A rename
is atomic, so a reader never finds part of a file or directory. The name contains the batch's number, so a repeated
batch finds the dates that it moved before.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dedupe_pipeline.errors import LandingRefused

_MARKER = ".landing.json"


@contextmanager
def lock_checkpoint(work: Path) -> Iterator[None]:
    """Lock the working directory; the lock ends with this process, even by a crash.

    Raises:
        LandingRefused: another process holds it.
    """
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LandingRefused(
                f"another process lands with the checkpoint {work}; let it finish or stop it first"
            ) from None
        yield


def check_same_file_system(output: Path, work: Path) -> None:
    """Refuse a working directory that does not allow renames to the output.

    Raises:
        LandingRefused: they are on different file systems.
    """
    if output.stat().st_dev != work.stat().st_dev:
        raise LandingRefused(
            f"{work} and {output} are on different file systems, so that no batch can be moved "
            "atomically; choose a --checkpoint on the file system of the output"
        )


def check_checkpoint(output: Path, checkpoint: Path, topic: str) -> None:
    """Refuse to add to an output whose batches another checkpoint counts.

    Raises:
        LandingRefused: another batch would land records twice, or skip some.
    """
    query = query_id(checkpoint)
    marker = _read_marker(output)
    if marker is None:
        if any(output.glob("date=*")):
            raise LandingRefused(
                f"{output} holds date=… directories that were not landed here; "
                "choose an empty directory"
            )
        if any((checkpoint / "commits").glob("[0-9]*")):
            raise LandingRefused(
                f"{checkpoint} has recorded batches that {output} does not contain; bring the output "
                "back, or delete the checkpoint to land the topic from its beginning"
            )
    elif marker["query"] != query:
        raise LandingRefused(
            f"{output} was landed with another checkpoint than {checkpoint} (query "
            f"{marker['query']}, not {query}); use that checkpoint, or choose an empty output directory"
        )
    elif marker["topic"] != topic:
        raise LandingRefused(
            f"{output} holds topic {marker['topic']!r}, not {topic!r}; choose another directory"
        )


def write_marker(output: Path, checkpoint: Path, topic: str) -> None:
    """Bind the output to the checkpoint before the first batch; no effect later."""
    if _read_marker(output) is None:
        text = json.dumps({"query": query_id(checkpoint), "topic": topic})
        new = checkpoint / _MARKER
        new.write_text(text, encoding="utf-8")
        _sync(new)
        new.rename(output / _MARKER)
        _sync(output)


def publish(staging: Path, output: Path, batch: int) -> None:
    """Move the staged dates of a batch to the output; existing dates are not changed.

    After its return the batch survives a power failure, so Spark may commit it.
    """
    for staged in sorted(staging.glob("date=*")):
        target = output / staged.name / f"batch={batch}"
        if target.exists():
            continue  # moved by an earlier attempt of this batch, which had the same records
        for file in staged.iterdir():
            _sync(file)
        _sync(staged)
        target.parent.mkdir(exist_ok=True)
        staged.rename(target)
        _sync(target.parent)
    _sync(output)
    shutil.rmtree(staging)


def query_id(checkpoint: Path) -> str | None:
    """Return Spark's id of a checkpoint's query, None before its first start."""
    try:
        text = (checkpoint / "metadata").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return str(json.loads(text)["id"])


def _read_marker(output: Path) -> dict[str, str] | None:
    try:
        text = (output / _MARKER).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    marker: dict[str, str] = json.loads(text)
    return marker


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
