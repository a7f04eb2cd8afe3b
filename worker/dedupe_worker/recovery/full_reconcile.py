"""Compare the whole store with the output topic, both ways: what docs/decisions/0012 says, done.

    1  read the output partition; write its ids to sorted files beside the store
    2  walk these and the generations side by side; note on disk what the store lacks, and what only it has
    3  add the one, remove the other

Until 3 the store is as it was. What a crash in 3 leaves is right too, only not done: an id is added because its
record is in the output, and removed because none is. Memory is bounded whatever the sizes; the files take 24 bytes
for each output record, and are deleted in any case.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedupe_ids.extract import Extractor
from dedupe_worker.errors import store_errors
from dedupe_worker.kafka.admin import Range
from dedupe_worker.kafka.consumer import Reader
from dedupe_worker.recovery.tail import Progress, read_output
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.external_sort import (
    Entries,
    EntryFile,
    Ids,
    find,
    id_bytes,
    make_entries,
    side_by_side,
    sort_entries,
)

_RUN_RECORDS: Final = 500_000  # sorted at once: 24 bytes each, twice
_PIECE_ENTRIES: Final = 1_000_000  # held of all runs together
_FIRST_GENERATION: Final = "g00000001"

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Span:
    """Where the output records of a generation's ids begin: at `begin` or later. `bootstrapped`: its ids came from
    elsewhere (`dedupe bootstrap`), and the output topic says nothing of them."""

    name: str
    begin: int
    bootstrapped: bool


def plan_spans(positions: Sequence[tuple[str, int | None]]) -> list[Span]:
    """The spans of generations, oldest first, from the output position that each is complete up to.

    A generation holds what was passed on after its predecessor was sealed. Where there is none, or it is gone, 0 is
    certain not to be too late.
    """
    spans: list[Span] = []
    begin = 0
    for name, position in positions:
        bootstrapped = name.startswith("b")
        spans.append(Span(name, begin, bootstrapped))
        if position is not None and not bootstrapped:
            begin = position
    return spans


@dataclass(frozen=True, slots=True)
class Difference:
    """What is not the same within one range of ids.

    `missing` are entries of the output that no generation has; `surplus`, one array for each generation, its ids
    that no output record has. `first_known` is the least position of a record that an ordinary generation remembers.
    """

    missing: Entries
    surplus: list[Ids]
    first_known: int | None


def differ(output: Entries, stored: Sequence[Ids], spans: Sequence[Span]) -> Difference:
    """Compare one range. `output` and each generation's ids are sorted, and have no id twice."""
    ids = np.ascontiguousarray(output["id"])
    known = np.zeros(len(ids), np.bool_)
    ordinary = known.copy()
    surplus: list[Ids] = []
    for of_generation, span in zip(stored, spans, strict=True):
        rows, found = find(ids, of_generation)
        known[rows[found]] = True
        if span.bootstrapped:
            surplus.append(of_generation[:0])
            continue
        ordinary[rows[found]] = True
        surplus.append(of_generation[~found])
    positions = output["position"][ordinary]
    return Difference(output[~known], surplus, int(positions.min()) if len(positions) else None)


def home(spans: Sequence[Span], positions: NDArray[np.int64]) -> NDArray[np.intp]:
    """The generation (its number in `spans`) in which an id belongs whose record is at each position: the last one
    that begins there or before, so that what `Span` says stays true."""
    ordinary = [number for number, span in enumerate(spans) if not span.bootstrapped]
    begins = np.array([spans[number].begin for number in ordinary], np.int64)
    place = np.searchsorted(begins, positions, "right") - 1
    homes: NDArray[np.intp] = np.array(ordinary, np.intp)[np.maximum(place, 0)]
    return homes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Counts. `records` were read; the others are ids: see ComparisonStatus."""

    records: int = 0
    added: int = 0
    removed: int = 0
    aged_out: int = 0
    unverifiable: int = 0


def compare(
    reader: Reader,
    store: IdStore,
    extract: Extractor,
    *,
    directory: Path,
    output: Range,
    stop: Event,
    on_progress: OnProgress,
) -> Outcome | None:
    """Make the store hold what the output partition holds; None if `stop` was set before that was done.

    `reader` stands at the low end of `output`, and the store has a stamp. `directory` is for files that don't
    outlive the call. `on_progress` is called after each batch and each range.

    Raises DiskFull or StoreFailed when there is no room for the files, and what a reader and a store raise.
    """
    remove_comparison(directory)
    try:
        with store_errors(f"making {directory}"):
            directory.mkdir(exist_ok=True)
        return _Comparison(store, directory, output, stop, on_progress).run(reader, extract)
    finally:
        remove_comparison(directory)


def remove_comparison(directory: Path) -> None:
    """Clear away the files of a comparison: the last one's, too, if a crash has left any."""
    shutil.rmtree(directory, ignore_errors=True)


class _Comparison:
    def __init__(
        self,
        store: IdStore,
        directory: Path,
        output: Range,
        stop: Event,
        on_progress: OnProgress,
    ) -> None:
        self._store = store
        self._directory = directory
        self._output = output
        self._stop = stop
        self._on_progress = on_progress
        self._began = time.monotonic()
        self._spans = plan_spans(store.positions())
        self._outcome = Outcome()

    def run(self, reader: Reader, extract: Extractor) -> Outcome | None:
        runs = self._read(reader, extract)
        missing, surplus, first_known = self._find_differences(runs)
        self._add(missing, first_known)
        self._remove(surplus)
        if self._stop.is_set():
            return None
        self._store.settle()
        return self._outcome

    def _read(self, reader: Reader, extract: Extractor) -> list[EntryFile]:
        """Write the ids of the whole partition to files, each sorted by itself."""
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
            records += len(batch.records)
            at_end = batch.next_offset >= end
            if at_end or sum(map(len, waiting)) >= _RUN_RECORDS:
                run = EntryFile(self._directory / f"run-{len(runs)}")
                run.append(sort_entries(np.concatenate(waiting)))
                runs.append(run)
                waiting.clear()
            self._outcome = replace(self._outcome, records=records)
            self._show(max(0, end - batch.next_offset))
        return runs

    def _find_differences(
        self, runs: Sequence[EntryFile]
    ) -> tuple[EntryFile, list[EntryFile], int]:
        """What is missing, what is surplus by generation, and where the first known record is (0 if none is known)."""
        missing = EntryFile(self._directory / "missing")
        surplus = [EntryFile(self._directory / f"surplus-{span.name}") for span in self._spans]
        first_known: int | None = None
        piece = max(1, _PIECE_ENTRIES // max(1, len(runs)))
        sources = [run.pieces(piece) for run in runs]
        sources += [map(make_entries, self._store.ids(span.name)) for span in self._spans]
        for parts in side_by_side(sources):
            if self._stop.is_set():
                break
            output = sort_entries(np.concatenate([*parts[: len(runs)], parts[0][:0]]))
            stored = [np.ascontiguousarray(part["id"]) for part in parts[len(runs) :]]
            found = differ(output, stored, self._spans)
            missing.append(found.missing)
            for file, ids in zip(surplus, found.surplus, strict=True):
                file.append(make_entries(ids.tobytes()))
            first_known = _least(first_known, found.first_known)
            self._show(0)
        return missing, surplus, first_known or 0

    def _add(self, missing: EntryFile, first_known: int) -> None:
        """Give each missing id to the generation it belongs in, but those that the window has given up."""
        oldest = next(span.name for span in self._spans if not span.bootstrapped)
        kept_from = 0 if oldest == _FIRST_GENERATION else first_known
        for entries in missing.pieces(self._store.bounds.largest_write_records):
            if self._stop.is_set():
                return
            kept = entries[entries["position"] >= kept_from]
            homes = home(self._spans, kept["position"])
            for number in np.unique(homes).tolist():
                self._store.amend(
                    self._spans[number].name, added=id_bytes(kept["id"][homes == number])
                )
            self._outcome = replace(
                self._outcome,
                added=self._outcome.added + len(kept),
                aged_out=self._outcome.aged_out + len(entries) - len(kept),
            )
            self._show(0)

    def _remove(self, surplus: Sequence[EntryFile]) -> None:
        """Remove what no record has, where the output still holds every record that a generation came from."""
        for span, file in zip(self._spans, surplus, strict=True):
            if self._output.low > span.begin:
                self._outcome = replace(
                    self._outcome, unverifiable=self._outcome.unverifiable + file.count
                )
                continue
            for entries in file.pieces(self._store.bounds.largest_write_records):
                if self._stop.is_set():
                    return
                self._store.amend(span.name, removed=id_bytes(entries["id"]))
                self._outcome = replace(self._outcome, removed=self._outcome.removed + len(entries))
                self._show(0)

    def _show(self, remaining: int) -> None:
        seconds = time.monotonic() - self._began
        self._on_progress(Progress(self._outcome.records, remaining, seconds))


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
