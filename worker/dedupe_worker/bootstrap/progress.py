"""The progress of a bootstrap, on disk and in the log, and its result.

`job` saves a `Progress` after each piece of work, and writes a `BootstrapRecord` when a store is complete.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from dedupe_crds.clock import Clock
from dedupe_worker.bootstrap.sst_writer import SstFile
from dedupe_worker.store.state_dir import StateDirectory, write_atomically

_FORMAT: Final = 1
_RECORD: Final = "bootstrap.json"
_LOG_SECONDS: Final = 5.0

log = structlog.get_logger()


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class PartitionProgress(_Document):
    """One partition. `taken` counts the ids in its runs; the times are theirs.

    `starts_ms` are the generation cut-offs, None until they are known. `left_out` ids don't fit into the window.
    `ranges` are written, to the files in `tables`.
    """

    taken: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    starts_ms: list[int] | None = None
    ids: int = 0
    left_out: int = 0
    ranges: int = 0
    tables: list[SstFile] = []


class Progress(_Document):
    """progress.json. `source` and `now_ms` are fixed at the begin.

    `position` is the source's, after `runs` runs.

    `without_id`, `too_old` (for the window) and `too_new` (not before --before) count records that are not taken.
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
        """Write it, all or nothing. Raises DiskFull or OSError."""
        write_atomically(path, self.model_dump_json(by_alias=True))


def load_progress(path: Path) -> Progress | None:
    """Return what was saved; None if there is nothing, or it is of another version."""
    try:
        found = Progress.model_validate_json(path.read_text())
    except (FileNotFoundError, ValidationError):
        return None
    return found if found.format == _FORMAT else None


class BootstrapRecord(_Document):
    """bootstrap.json in a state directory: the first content of its store.

    Counts are ids: `repeated` ones were in the source more than once, `left_out` ones were the oldest of more than the
    window holds.
    """

    format: int = _FORMAT
    source: Any
    created: datetime
    ids: int
    repeated: int
    left_out: int
    oldest: datetime | None


def read_record(state: StateDirectory) -> BootstrapRecord | None:
    """Return the record, None if the store did not begin with a bootstrap."""
    try:
        return BootstrapRecord.model_validate(json.loads((state.root / _RECORD).read_text()))
    except (FileNotFoundError, ValueError):
        return None


def write_record(state: StateDirectory, record: BootstrapRecord) -> None:
    """Write it, all or nothing. Raises DiskFull or OSError."""
    write_atomically(state.root / _RECORD, record.model_dump_json(by_alias=True, indent=2) + "\n")


def began_with_past_ids(state: StateDirectory, oldest: datetime) -> bool:
    """Return whether a bootstrap filled the store after `oldest`.

    The ids of an earlier one have aged out.
    """
    record = read_record(state)
    return record is not None and record.ids > 0 and record.created > oldest


@dataclass(frozen=True, slots=True)
class Step:
    """The present step of a bootstrap, and how far it is.

    `total` is in the same unit as `done`.
    """

    action: str
    done: int
    total: int

    @property
    def percent(self) -> int:
        """Return the share of the step that is done."""
        return round(100 * self.done / self.total) if self.total else 100


class Reached:
    """The present step, for a bootstrap that a signal ends."""

    def __init__(self) -> None:
        self._step: Step | None = None

    def then(self, show: Callable[[Step], None]) -> Callable[[Step], None]:
        """Return what notes each step and shows it."""

        def note(step: Step) -> None:
            self._step = step
            show(step)

        return note

    def describe(self) -> str:
        """Return how far the bootstrap is."""
        at = f"{self._step.action}, {self._step.percent} %" if self._step else "starting"
        return f"before all was loaded (now: {at}); the same command continues"


class ProgressLog:
    """Log the present step every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next = 0.0

    def __call__(self, step: Step) -> None:
        """Log the step if the last line is old enough."""
        if self._clock.monotonic() >= self._next:
            log.info("bootstrap progress", step=step.action, percent=step.percent)
            self._next = self._clock.monotonic() + _LOG_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result by partition, and the counts of what was not taken from the source.

    See `Progress`.

    With `done_before`, all stores were already filled from the same source, and the counts are of that time.
    """

    stores: dict[int, BootstrapRecord]
    without_id: int = 0
    too_old: int = 0
    too_new: int = 0
    restarted: bool = False
    done_before: bool = False


def describe(summary: Summary) -> Sequence[str]:
    """Return the result in lines for users."""
    if summary.done_before:
        return ["Done before: every partition has its store from this source."]
    ids = sum(store.ids for store in summary.stores.values())
    oldest = [store.oldest for store in summary.stores.values() if store.oldest]
    since = f", the oldest of {min(oldest):%Y-%m-%d %H:%M:%S}Z" if oldest else ""
    lines = [f"{ids:,} ids in {len(summary.stores)} partitions{since}."]
    counts = {
        "are repeats of an id in the source": sum(
            store.repeated for store in summary.stores.values()
        ),
        "have no id": summary.without_id,
        "are older than spec.store.window.maxAge": summary.too_old,
        "are not from before --before": summary.too_new,
        "are the oldest of more than spec.store.window.maxBytes holds: the window is shorter than configured": sum(
            store.left_out for store in summary.stores.values()
        ),
    }
    lines += [f"Left out: {count:,} that {why}." for why, count in counts.items() if count]
    if summary.restarted:
        lines.append("An interrupted bootstrap had read another source: its files were deleted.")
    return lines
