"""Checkpoints: consistent copies of the store, and the restore from them.

    checkpoints/<created>/checkpoint.json    see `CheckpointRecord`
    checkpoints/<created>/db/                hard links to the store's immutable files

The admin command `checkpoint` and the snapshot upload make them; the start-up replaces a damaged store by the newest
one. Then less of the output has to be read again, and ids are kept whose records the output topic no longer has.

Invariants:
  1. A checkpoint gets its name only when it is complete and on disk. So a copy of the volume contains it.
  2. Only the newest one is kept: an older one would hold files that the window has dropped, and take the space that
     the window is bound to. The newest one does so too: while the window stays within `maxBytes`, it and a checkpoint
     made long ago no longer share any file, and together take up to twice that size. The volume of a stream with
     snapshots needs space for both.
  3. The input offset in a checkpoint is of the input topic in its record, also if its store does not name one.
  4. After a crash during a restore, the volume has the damaged store, or none, or the complete copy. The checkpoint
     shares files with the store it was made from, so it may be damaged too: the copy is marked so that its opening
     reads every id.
"""

import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from dedupe_crds.status.worker import CheckpointStatus
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.errors import DiskFull, store_error
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.column_families import UNTRUSTED
from dedupe_worker.store.inverse_bloom.segments import SUFFIX
from dedupe_worker.store.progress import Report, Step, copy_file, no_report
from dedupe_worker.store.state_dir import Identity, StateDirectory, sync_to_disk, write_atomically

RECORD: Final = "checkpoint.json"
"""Its name in a checkpoint's directory."""

_UNFINISHED: Final = ".unfinished"
_DISTRUSTED: Final = "checkpoint.json.damaged"

log = structlog.get_logger()


class CheckpointRecord(BaseModel):
    """checkpoint.json. Offsets are the next to be read.

    `window_seconds` is the age of the oldest id, by the clock by which ids age.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    format: int = 1
    stream: str
    partition: int
    input_topic_id: str
    output_topic_id: str
    id_source: str = Field(default="", alias="id")
    input_offset: int
    output_position: int
    keys: int
    window_seconds: float
    bytes: int
    created: datetime


# -- making one ----------------------------------------------------------------------------------


def remove_unfinished(state: StateDirectory) -> None:
    """Remove what a crash left of an unfinished checkpoint."""
    for path in state.checkpoints.glob(f"*{_UNFINISHED}"):
        shutil.rmtree(path, ignore_errors=True)


def make_checkpoint(
    state: StateDirectory, identity: Identity, store: IdStore, now: datetime
) -> CheckpointStatus | None:
    """Write a checkpoint of the store between two transactions.

    None while the store is still empty.

    Raises DiskFull, StoreFailed or OSError; the store can still be used then.
    """
    metadata = store.metadata
    if metadata is None:
        return None
    remove_unfinished(state)
    name = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    unfinished = state.checkpoints / (name + _UNFINISHED)
    unfinished.mkdir(parents=True)
    store.checkpoint(unfinished / "db")
    generations = store.generations()
    record = CheckpointRecord(
        **identity.model_dump(exclude={"format"}),
        input_offset=metadata.input_offset,
        output_position=metadata.output_position,
        keys=sum(g.keys for g in generations),
        window_seconds=store.window_seconds(store.aged_ms),
        bytes=sum(f.stat().st_size for f in (unfinished / "db").iterdir()),
        created=now,
    )
    # RocksDB has synced all files, the linked ones when it wrote them. This syncs their directory's name as well.
    write_atomically(unfinished / RECORD, record.model_dump_json(by_alias=True, indent=2) + "\n")
    older = [p for p in state.checkpoints.iterdir() if p != unfinished]
    final = unfinished.rename(state.checkpoints / name)
    sync_to_disk(state.checkpoints)
    sync_to_disk(state.root)  # where `checkpoints` may be new
    for path in older:
        shutil.rmtree(path, ignore_errors=True)
    return CheckpointStatus(
        path=str(final),
        created=record.created,
        input_offset=record.input_offset,
        output_position=record.output_position,
        keys=record.keys,
        input_topic_id=record.input_topic_id,
        output_topic_id=record.output_topic_id,
        window_seconds=record.window_seconds,
        bytes=record.bytes,
    )


# -- restoring the store from it -----------------------------------------------------------------


def restore_from_checkpoint(
    state: StateDirectory, identity: Identity, output: OffsetRange, report: Report = no_report
) -> CheckpointRecord | None:
    """Replace the store by a copy of the newest checkpoint.

    Return its record, or None if there is none that can be used. `report` is called after each piece of the copy.

    The store is closed, and unfinished checkpoints are removed. A checkpoint can be used if it is of the same stream,
    partition and output topic, and the output still holds every record that came after it. Raises DiskFull; the store
    is then unchanged.
    """
    directory = _newest(state)
    record = _read(directory) if directory else None
    if directory is None or record is None:
        return None
    if not _is_usable(record, identity, output):
        log.warning(
            "checkpoint can't be used: it is of another stream, or the output has lost records since",
            checkpoint=directory.name,
        )
        return None
    remove_checkpoint_copy(state)
    try:
        _copy(directory / "db", state.copied, report)
        (state.copied / UNTRUSTED).touch()
        sync_to_disk(state.copied)
        _record_input(state, record)
        state.discard_store()
        state.copied.rename(state.database)
        sync_to_disk(state.root)
    except OSError as error:
        remove_checkpoint_copy(state)
        named = store_error(error, f"copying checkpoint {directory.name}")
        if isinstance(named, DiskFull):
            raise named from error
        log.warning("checkpoint can't be copied", checkpoint=directory.name, error=str(error))
        return None
    log.warning("store replaced by checkpoint", checkpoint=directory.name)
    return record


def remove_checkpoint_copy(state: StateDirectory) -> None:
    """Remove what a crash left of an unfinished copy."""
    shutil.rmtree(state.copied, ignore_errors=True)


def distrust_checkpoint(state: StateDirectory) -> None:
    """Have the newest checkpoint not be used again: reading it has found damage.

    The files stay until the next checkpoint takes their place.
    """
    if directory := _newest(state):
        with suppress(OSError):
            (directory / RECORD).rename(directory / _DISTRUSTED)
            sync_to_disk(directory)


def _record_input(state: StateDirectory, record: CheckpointRecord) -> None:
    """Record the checkpoint's input topic as that of the store.

    The store of an earlier release does not name it. If this is repeated after a crash, it must still be known.
    """
    recorded = state.recorded(record.stream, record.partition)
    if recorded and recorded.input_topic_id != record.input_topic_id:
        state.record(recorded.model_copy(update={"input_topic_id": record.input_topic_id}))


def _newest(state: StateDirectory) -> Path | None:
    """Return the newest checkpoint's directory.

    Its name is the time at which it was made.
    """
    return max((path.parent for path in state.checkpoints.glob(f"*/{RECORD}")), default=None)


def _read(directory: Path) -> CheckpointRecord | None:
    try:
        return CheckpointRecord.model_validate_json((directory / RECORD).read_bytes())
    except (OSError, ValidationError) as error:
        log.warning("checkpoint can't be read", checkpoint=directory.name, error=str(error))
        return None


def _is_usable(record: CheckpointRecord, identity: Identity, output: OffsetRange) -> bool:
    same = (record.stream, record.partition, record.output_topic_id) == (
        identity.stream,
        identity.partition,
        identity.output_topic_id,
    )
    return same and output.low <= record.output_position <= output.end


def _copy(source: Path, target: Path, report: Report) -> None:
    """Link the immutable files and copy the others, and those that can't be linked.

    Raises OSError.
    """
    target.mkdir()
    paths = list(source.iterdir())
    for number, path in enumerate(paths):
        copying = partial(report, Step.COPYING_CHECKPOINT, number, len(paths))
        copying()
        linked = target / path.name
        if path.suffix in {".sst", SUFFIX}:
            try:
                os.link(path, linked)
                continue
            except OSError:
                pass  # the copy reports the cause, if it fails too
        copy_file(path, linked, copying)
        sync_to_disk(linked)
