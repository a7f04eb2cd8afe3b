"""How far a bootstrap is, on disk, so that an interrupted one goes on; and what it has come to, beside the store."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from dedupe_worker.bootstrap.sst_writer import Table
from dedupe_worker.store.state_dir import StateDirectory, write_atomically

_FORMAT: Final = 1
_RECORD: Final = "bootstrap.json"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class PartitionProgress(_Document):
    """One partition. `taken` counts what its runs were made of; the times are those of what was taken.

    `starts_ms` are the cuts, None until they are known; `left_out` is what the window has no room for; `ranges` are
    written, in `tables`.
    """

    taken: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    starts_ms: list[int] | None = None
    ids: int = 0
    left_out: int = 0
    ranges: int = 0
    tables: list[Table] = []


class Progress(_Document):
    """The whole. `source` and `now_ms` are fixed when it begins; `position` is the source's, after `runs` runs.

    `without_id`, `too_old` (for the window) and `too_new` (not before --before) count what is not taken.
    """

    format: int = _FORMAT
    source: Any
    now_ms: int
    position: Any = None
    done: int = 0
    runs: int = 0
    all_read: bool = False
    without_id: int = 0
    too_old: int = 0
    too_new: int = 0
    partitions: dict[int, PartitionProgress]

    def save(self, path: Path) -> None:
        """All or nothing. Raises DiskFull or OSError."""
        write_atomically(path, self.model_dump_json(by_alias=True))


def load_progress(path: Path) -> Progress | None:
    """What was saved; None if nothing was, or another version did it."""
    try:
        found = Progress.model_validate_json(path.read_text())
    except (FileNotFoundError, ValidationError):
        return None
    return found if found.format == _FORMAT else None


class BootstrapRecord(_Document):
    """bootstrap.json in a state directory: what its store began with. Counts are ids; `repeated` ones stood in the
    source more than once, `left_out` were the oldest of more than the window holds."""

    format: int = _FORMAT
    source: Any
    created: datetime
    ids: int
    repeated: int
    left_out: int
    oldest: datetime | None


def read_record(state: StateDirectory) -> BootstrapRecord | None:
    """The record, None if the store did not begin with a bootstrap."""
    try:
        return BootstrapRecord.model_validate(json.loads((state.root / _RECORD).read_text()))
    except (FileNotFoundError, ValueError):
        return None


def write_record(state: StateDirectory, record: BootstrapRecord) -> None:
    """Write it, all or nothing. Raises DiskFull or OSError."""
    write_atomically(state.root / _RECORD, record.model_dump_json(by_alias=True, indent=2) + "\n")


def began_with_past_ids(state: StateDirectory, oldest: datetime) -> bool:
    """Whether the store was filled by a bootstrap, after `oldest`: earlier, its ids have aged out by now."""
    record = read_record(state)
    return record is not None and record.ids > 0 and record.created > oldest
