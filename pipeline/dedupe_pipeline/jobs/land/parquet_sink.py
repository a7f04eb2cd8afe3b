"""Add whole batches to a directory of Parquet files, each exactly once.

The job `land` calls it. The output directory contains only:

    date=2026-11-21/batch=17/part-….parquet      the records of batch 17 with a timestamp of that day
    .landing.json, .batches/                     what these batches are, see `output_log`

A batch is first written to a staging directory elsewhere, then each of its dates is moved here by one rename. A rename
is atomic, so a reader never finds part of a file or directory. The name contains the batch's number, so a repeated
batch finds the dates that it moved before.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dedupe_pipeline.errors import LandingRefused


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


def write_atomically(new: Path, target: Path, text: str) -> None:
    """Write `new` and move it to `target`, so that it survives a power failure whole."""
    new.write_text(text, encoding="utf-8")
    _sync(new)
    new.rename(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
