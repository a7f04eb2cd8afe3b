"""A damaged store is replaced by the newest checkpoint on the same volume, if that fits: less is read anew then,
and ids are kept whose records the output topic has no more.

The checkpoint shares files with the store it was made of. Whether it is damaged too is found when it is opened:
it is marked so that every id is read then.
"""

import os
import shutil
from pathlib import Path

import structlog
from pydantic import ValidationError

from dedupe_worker.errors import DiskFull, store_error
from dedupe_worker.kafka.admin import Range
from dedupe_worker.store.checkpoint import CheckpointRecord
from dedupe_worker.store.inverse_bloom.segments import SUFFIX
from dedupe_worker.store.rocksdb import UNTRUSTED
from dedupe_worker.store.state_dir import Identity, StateDirectory

log = structlog.get_logger()


def fall_back(state: StateDirectory, identity: Identity, output: Range) -> bool:
    """Put a copy of the newest whole checkpoint in the store's place; False if there is none that fits.

    Unfinished ones have been cleared away, and the store is closed.

    It fits if it is of the same stream, partition and output topic, and the output still holds all that came after
    it. A crash leaves the damaged store, or none, or the copy. Raises DiskFull; the store is then as it was.
    """
    directory = _newest(state)
    record = _read(directory) if directory else None
    if directory is None or record is None:
        return False
    if not _fits(record, identity, output):
        log.warning("checkpoint does not fit", checkpoint=directory.name)
        return False
    remove_copy(state)
    try:
        _copy(directory / "db", state.copied)
        (state.copied / UNTRUSTED).touch()
        state.discard_store()
        state.copied.rename(state.database)
    except OSError as error:
        remove_copy(state)
        named = store_error(error, f"copying checkpoint {directory.name}")
        if isinstance(named, DiskFull):
            raise named from error
        log.warning("checkpoint can't be copied", checkpoint=directory.name, error=str(error))
        return False
    log.warning("store replaced by checkpoint", checkpoint=directory.name)
    return True


def remove_copy(state: StateDirectory) -> None:
    """Clear away what a crash left of a copy."""
    shutil.rmtree(state.copied, ignore_errors=True)


def _newest(state: StateDirectory) -> Path | None:
    """By its name, which is the time it was made at."""
    return max((path.parent for path in state.checkpoints.glob("*/checkpoint.json")), default=None)


def _read(directory: Path) -> CheckpointRecord | None:
    try:
        return CheckpointRecord.model_validate_json((directory / "checkpoint.json").read_bytes())
    except (OSError, ValidationError) as error:
        log.warning("checkpoint can't be read", checkpoint=directory.name, error=str(error))
        return None


def _fits(record: CheckpointRecord, identity: Identity, output: Range) -> bool:
    is_ours = (record.stream, record.partition, record.output_topic_id) == (
        identity.stream,
        identity.partition,
        identity.output_topic_id,
    )
    return is_ours and output.low <= record.output_position <= output.end


def _copy(source: Path, target: Path) -> None:
    """Links to what a store never changes, copies of the rest and where links can't be made. Raises OSError."""
    target.mkdir()
    for path in source.iterdir():
        linked = target / path.name
        if path.suffix in {".sst", SUFFIX}:
            try:
                os.link(path, linked)
                continue
            except OSError:
                pass  # the copy says what is wrong, if anything is
        shutil.copy2(path, linked)
