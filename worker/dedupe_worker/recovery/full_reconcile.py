"""Compare the whole store with the output topic, both ways (docs/decisions/0012).

    1  read the output partition; write its ids to sorted files next to the store
    2  walk these and the generations side by side; write to disk the ids that the store lacks, and those only it has
    3  add the former, remove the latter

`on_demand.py` calls it. Until 3 the store is unchanged. A crash in 3 leaves it correct, but not complete: an id is
added because its record is in the output, and removed because no record is. Memory is bounded whatever the sizes; the
files take 24 bytes for each output record, with side topics also its value and 8 bytes (`kept_values.py`), and are
deleted in any case.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Final, Protocol

import numpy as np

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_ids.extract import ID_BYTES, Extractor
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.errors import store_errors
from dedupe_worker.kafka.consumer import Reader, read_output
from dedupe_worker.recovery.difference import find_difference, find_generation, plan_ranges
from dedupe_worker.recovery.kept_values import KeptValues
from dedupe_worker.side_topics.owner_log import OutputValues
from dedupe_worker.status import Progress
from dedupe_worker.store.api import FullyReconcilable
from dedupe_worker.store.external_sort import (
    Entries,
    EntryFile,
    id_bytes,
    make_entries,
    side_by_side,
    sort_entries,
)

_RUN_RECORDS: Final = 500_000  # sorted at once: 24 bytes each, twice
_PIECE_ENTRIES: Final = 1_000_000  # in memory of all runs together
_FIRST_GENERATION: Final = "g00000001"
_BEFORE_ALL: Final = -1

OnProgress = Callable[[Progress], None]


class Learnt(Protocol):
    """Ids that are of no record of the own output, see `learnt_ids.py`."""

    @property
    def all_there(self) -> bool: ...  # noqa: D102
    def packed(self) -> Iterator[bytes]: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Counts: `records` that were read; the others are ids, see ComparisonStatus."""

    records: int = 0
    added: int = 0
    removed: int = 0
    aged_out: int = 0
    unverifiable: int = 0


def run_full_reconcile(
    reader: Reader,
    store: FullyReconcilable,
    extract: Extractor,
    *,
    directory: Path,
    output: OffsetRange,
    stop: Event,
    on_progress: OnProgress,
    values: OutputValues | None = None,
    learnt: Learnt | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Outcome | None:
    """Make the store hold the ids of the output partition, and `learnt` ones.

    What is added has its value by `values`, by default an unknown owner. None if `stop` was set before the end.
    `reader` is at the low end of `output`, and the store has metadata. `directory` is for files that are deleted before
    the call ends. `on_progress` is called after each batch and each range.

    Raises DiskFull or StoreFailed when there is no room for the files, and the errors of a reader and a store.
    """
    remove_work_files(directory)
    try:
        with store_errors(f"making {directory}"):
            directory.mkdir(exist_ok=True)
        reconcile = _FullReconcile(
            store,
            directory,
            output,
            stop,
            on_progress,
            values=KeptValues(directory, values) if values and values.tells_something else None,
            learnt=learnt,
            clock=clock,
        )
        return reconcile.run(reader, extract)
    finally:
        remove_work_files(directory)


def remove_work_files(directory: Path) -> None:
    """Delete the files of a full reconcile, also those that a crash has left."""
    shutil.rmtree(directory, ignore_errors=True)


class _FullReconcile:
    def __init__(
        self,
        store: FullyReconcilable,
        directory: Path,
        output: OffsetRange,
        stop: Event,
        on_progress: OnProgress,
        *,
        values: KeptValues | None,
        learnt: Learnt | None,
        clock: Clock,
    ) -> None:
        self._values = values
        self._learnt = learnt
        self._store = store
        self._directory = directory
        self._output = output
        self._stop = stop
        self._on_progress = on_progress
        self._monotonic = clock.monotonic
        self._began = clock.monotonic()
        self._ranges = plan_ranges(store.positions())
        self._outcome = Outcome()
        self._left = 0

    def run(self, reader: Reader, extract: Extractor) -> Outcome | None:
        runs = self._read(reader, extract)
        missing, surplus, first_known = self._find_differences(runs)
        self._add(missing, first_known)
        self._remove(surplus)
        if self._stop.is_set():
            return None
        self._store.flush_all()
        return self._outcome

    def _read(self, reader: Reader, extract: Extractor) -> list[EntryFile]:
        """Write the ids of the whole partition to files, each file sorted."""
        runs = self._read_own(reader, extract)
        for packed in _joined(self._learnt.packed() if self._learnt else ()):
            # Their records were before the first one of the own output.
            self._sort_to_file(make_entries(packed, _BEFORE_ALL), runs)
            self._show(0)
        return runs

    def _read_own(self, reader: Reader, extract: Extractor) -> list[EntryFile]:
        low, end = self._output.low, self._output.end
        runs: list[EntryFile] = []
        waiting: list[Entries] = []
        records = 0
        self._show(end - low)
        for batch in read_output(reader, start=low, end=end, stop=self._stop):
            found = extract(batch.records)
            offsets = np.fromiter(
                (r.offset() or 0 for r in batch.records), np.int64, len(batch.records)
            )
            waiting.append(make_entries(found.packed, offsets[found.rows]))
            if self._values and len(found.rows):
                self._values.add(batch.records, found.rows, offsets[found.rows])
            records += len(batch.records)
            at_end = batch.next_offset >= end
            if at_end or sum(map(len, waiting)) >= _RUN_RECORDS:
                self._sort_to_file(np.concatenate(waiting), runs)
                waiting.clear()
            self._outcome = replace(self._outcome, records=records)
            self._show(max(0, end - batch.next_offset))
        return runs

    def _sort_to_file(self, entries: Entries, runs: list[EntryFile]) -> None:
        run = EntryFile(self._directory / f"run-{len(runs)}")
        run.append(sort_entries(entries))
        runs.append(run)

    def _find_differences(
        self, runs: Sequence[EntryFile]
    ) -> tuple[EntryFile, list[EntryFile], int]:
        """Return missing ids, surplus ids by generation, and the first known position.

        That position is 0 if no record is known.
        """
        missing = EntryFile(self._directory / "missing")
        surplus = [
            EntryFile(self._directory / f"surplus-{generation.name}") for generation in self._ranges
        ]
        first_known: int | None = None
        piece = max(1, _PIECE_ENTRIES // max(1, len(runs)))
        self._left = sum(run.count for run in runs)
        sources = [self._watched(run.pieces(piece), counted=True) for run in runs]
        sources += [
            self._watched(map(make_entries, self._store.ids(generation.name)), counted=False)
            for generation in self._ranges
        ]
        for parts in side_by_side(sources):
            if self._stop.is_set():
                break
            output = sort_entries(np.concatenate([*parts[: len(runs)], parts[0][:0]]))
            stored = [np.ascontiguousarray(part["id"]) for part in parts[len(runs) :]]
            found = find_difference(output, stored, self._ranges)
            missing.append(found.missing)
            for file, ids in zip(surplus, found.surplus, strict=True):
                file.append(make_entries(ids.tobytes()))
            first_known = _least(first_known, found.first_known)
            self._show(self._left)
        return missing, surplus, first_known or 0

    def _add(self, missing: EntryFile, first_known: int) -> None:
        """Add each missing id to its generation, except those that have aged out."""
        oldest = next(generation.name for generation in self._ranges if not generation.bootstrapped)
        kept_from = _BEFORE_ALL if oldest == _FIRST_GENERATION else first_known
        for entries in missing.pieces(self._store.bounds.largest_write_records):
            if self._stop.is_set():
                return
            kept = entries[entries["position"] >= kept_from]
            homes = find_generation(self._ranges, kept["position"])
            for number in np.unique(homes).tolist():
                home = kept[homes == number]
                self._store.amend(
                    self._ranges[number].name,
                    added=id_bytes(home["id"]),
                    values=self._values.of(home["position"]) if self._values else None,
                )
            self._outcome = replace(
                self._outcome,
                added=self._outcome.added + len(kept),
                aged_out=self._outcome.aged_out + len(entries) - len(kept),
            )
            self._show(0)

    def _remove(self, surplus: Sequence[EntryFile]) -> None:
        """Remove ids without a record.

        Only where the output still holds each record that the generation came from.
        """
        unverifiable = self._learnt is not None and not self._learnt.all_there
        for generation, file in zip(self._ranges, surplus, strict=True):
            if unverifiable or self._output.low > generation.begin:
                self._outcome = replace(
                    self._outcome, unverifiable=self._outcome.unverifiable + file.count
                )
                continue
            for entries in file.pieces(self._store.bounds.largest_write_records):
                if self._stop.is_set():
                    return
                self._store.amend(generation.name, removed=id_bytes(entries["id"]))
                self._outcome = replace(self._outcome, removed=self._outcome.removed + len(entries))
                self._show(0)

    def _watched(self, source: Iterator[Entries], *, counted: bool) -> Iterator[Entries]:
        """Report after each piece: the first range needs one of every file."""
        for piece in source:
            self._left -= len(piece) if counted else 0
            self._show(self._left)
            yield piece

    def _show(self, remaining: int) -> None:
        seconds = self._monotonic() - self._began
        self._on_progress(Progress(self._outcome.records, remaining, seconds))


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces in larger ones, each enough for a file."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _RUN_RECORDS * ID_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if size:
        yield b"".join(waiting)


def _least(first: int | None, second: int | None) -> int | None:
    return min((each for each in (first, second) if each is not None), default=None)
