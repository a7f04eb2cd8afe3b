"""A consistent copy of the store with the stamp that says what it is complete up to.

    checkpoints/<created>/checkpoint.json    see `CheckpointRecord`
    checkpoints/<created>/db/                hard links to the store's immutable files

Only the newest is kept: an older one would hold files that the window has given up, and so take the room the window
is bound to. The newest does so too: while the window stays within `maxBytes`, it and a checkpoint made long ago share
no file any more, and take up to twice that together. A volume for a stream with snapshots needs room for both. A
checkpoint appears under its name only when it is whole, and on disk: a copy of the volume made then holds it.
"""

import shutil
from datetime import UTC, datetime
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from dedupe_crds.status.worker import CheckpointStatus
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.state_dir import Identity, StateDirectory, sync_to_disk, write_atomically

RECORD: Final = "checkpoint.json"
"""Its name in a checkpoint's directory."""

_UNFINISHED: Final = ".unfinished"


class CheckpointRecord(BaseModel):
    """checkpoint.json. Offsets are the next to be read; `window_seconds` is the age of the oldest id."""

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


def remove_unfinished(state: StateDirectory) -> None:
    """Clear away what a crash left of a checkpoint."""
    for path in state.checkpoints.glob(f"*{_UNFINISHED}"):
        shutil.rmtree(path, ignore_errors=True)


def make_checkpoint(
    state: StateDirectory, identity: Identity, store: IdStore, now: datetime
) -> CheckpointStatus | None:
    """Write a checkpoint of the store between two transactions; None while the store is still empty.

    Raises DiskFull, StoreFailed or OSError; the store goes on as it was.
    """
    stamp = store.stamp
    if stamp is None:
        return None
    remove_unfinished(state)
    name = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    unfinished = state.checkpoints / (name + _UNFINISHED)
    unfinished.mkdir(parents=True)
    store.checkpoint(unfinished / "db")
    generations = store.generations()
    record = CheckpointRecord(
        **identity.model_dump(exclude={"format"}),
        input_offset=stamp.input_offset,
        output_position=stamp.output_position,
        keys=sum(g.keys for g in generations),
        window_seconds=store.window_seconds(int(now.timestamp() * 1000)),
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
