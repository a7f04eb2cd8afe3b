"""A directory of Parquet files to which whole batches are added, each exactly once.

Layout below the output directory, nothing else is ever seen in it:

    date=2026-11-21/batch=17/part-….parquet      the records of batch 17 with a timestamp of that day
    .landing.json                                which checkpoint these batches were counted by

A batch is first written to a staging directory outside, then each of its dates is moved in by one
rename. A rename is all or nothing, so a reader never finds part of a file or of a directory, and
the name holds the batch's number, so that a batch that is repeated finds what it had moved before.
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
def only_one(work: Path) -> Iterator[None]:
    """Hold the working directory; the lock ends with this process, however it ends.

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
    """Refuse a working directory from which nothing can be renamed into the output.

    Raises:
        LandingRefused: they are on different file systems.
    """
    if output.stat().st_dev != work.stat().st_dev:
        raise LandingRefused(
            f"{work} and {output} are on different file systems, so that no batch can be moved in "
            "at once; choose a --checkpoint on the file system of the output"
        )


def check_belongs(output: Path, checkpoint: Path, topic: str) -> None:
    """Refuse to add to an output whose batches another checkpoint has counted.

    Raises:
        LandingRefused: going on would land records twice, or leave some out.
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
                f"{checkpoint} has batches on record that {output} does not hold; bring the output "
                "back, or delete the checkpoint to land the topic from its beginning"
            )
    elif marker["query"] != query:
        raise LandingRefused(
            f"{output} was landed with another checkpoint than {checkpoint} (query "
            f"{marker['query']}, not {query}); give that one, or choose an empty output directory"
        )
    elif marker["topic"] != topic:
        raise LandingRefused(
            f"{output} holds topic {marker['topic']!r}, not {topic!r}; choose another directory"
        )


def mark(output: Path, checkpoint: Path, topic: str) -> None:
    """Bind the output to the checkpoint. Comes before the first batch, and changes nothing after."""
    if _read_marker(output) is None:
        text = json.dumps({"query": query_id(checkpoint), "topic": topic})
        new = checkpoint / _MARKER
        new.write_text(text, encoding="utf-8")
        _sync(new)
        new.rename(output / _MARKER)
        _sync(output)


def publish(staging: Path, output: Path, batch: int) -> None:
    """Move the staged dates of one batch into the output; those already there stay as they are.

    When it returns the batch outlives a power cut, so Spark may then commit it.
    """
    for staged in sorted(staging.glob("date=*")):
        target = output / staged.name / f"batch={batch}"
        if target.exists():
            continue  # by an earlier try of this batch, which had the same records
        for file in staged.iterdir():
            _sync(file)
        _sync(staged)
        target.parent.mkdir(exist_ok=True)
        staged.rename(target)
        _sync(target.parent)
    _sync(output)
    shutil.rmtree(staging)


def query_id(checkpoint: Path) -> str | None:
    """The id that Spark gave the query of a checkpoint, None before it has started once."""
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
