"""A bootstrap from its source to the stores.

`request` calls this. Invariant: after a kill at any point, the same call continues:

1. while reading: from the last run that was written for all partitions;
2. while writing files: from the first range that is not recorded as written;
3. while a store is built: from its files, which are kept until all stores are complete;
4. between the store and its identity: a store without an identity is built again;
5. after the identity: that partition is done.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.bootstrap.generation_cutoffs import (
    GenerationCutoffs,
    TimeHistogram,
    TooManyAtOnce,
    plan_cutoffs,
)
from dedupe_worker.bootstrap.progress import (
    BootstrapRecord,
    PartitionProgress,
    Progress,
    Step,
    Summary,
    load_progress,
    read_record,
    write_record,
)
from dedupe_worker.bootstrap.run_buffer import RunBuffer, run_path
from dedupe_worker.bootstrap.source import Json, Source
from dedupe_worker.bootstrap.sst_writer import build_store, write_sst_files
from dedupe_worker.errors import IdentityRefused
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.external_sort import (
    RANGE_ENTRIES,
    bounds_of_ranges,
    merge,
    merged,
    open_runs,
)
from dedupe_worker.store.state_dir import Identity, StateDirectory, sync_to_disk

RUN_ROWS: Final = 2_000_000
"""Ids in memory until they are written: some 150 MB with the sorting."""

OnProgress = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One partition whose store will be filled.

    The worker reads the output from `output_position` on.
    """

    partition: int
    state: StateDirectory
    identity: Identity
    output_position: int


class Job:
    """A bootstrap of the stores of `targets` from `source`.

    Only ids seen before `before_ms` are taken, if it is given. `work` is a directory that only this job uses, for up to
    24 bytes for each id read and 37 for each kept.
    """

    def __init__(
        self,
        source: Source,
        targets: Sequence[Target],
        bounds: Bounds,
        work: Path,
        *,
        before_ms: int | None,
        on_progress: OnProgress,
        run_rows: int = RUN_ROWS,
        range_rows: int = RANGE_ENTRIES,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._source = source
        self._targets = targets
        self._bounds = bounds
        self._work = work
        self._before_ms = before_ms
        self._on_progress = on_progress
        self._run_rows = run_rows
        self._range_rows = range_rows
        self._clock = clock

    def run(self) -> Summary:
        """Run the bootstrap, or resume it.

        Raises IdentityRefused for a directory that has a store, and what sources and stores raise.
        """
        with ExitStack() as locks:
            for target in self._targets:
                locks.enter_context(target.state.lock())
            fingerprint = self._fingerprint()
            todo = [target for target in self._targets if not _is_done(target, fingerprint)]
            if not todo:
                return Summary(stores=self._records(), done_before=True)
            restarted = self._begin(fingerprint)
            if not self._progress.all_read:
                self._read()
            for target in todo:
                self._write_files(target.partition)
                self._install(target)
            progress = self._progress
            shutil.rmtree(self._work)
            return Summary(
                stores=self._records(),
                without_id=progress.without_id,
                too_old=progress.too_old,
                too_new=progress.too_new,
                restarted=restarted,
            )

    def _fingerprint(self) -> Json:
        """Return everything that determines the result, as JSON returns it."""
        window = [self._bounds.max_bytes, self._bounds.max_age.total_seconds()]
        return {
            **self._source.fingerprint,
            "before": self._before_ms,
            "window": [*window, self._bounds.generations],
        }

    def _begin(self, fingerprint: Json) -> bool:
        """Resume the files of the same source and partitions.

        Return True if they are of others, and deleted.
        """
        found = load_progress(self._progress_path)
        wanted = {target.partition for target in self._targets}
        if found is not None and found.source == fingerprint and found.partitions.keys() == wanted:
            self._progress = found
            return False
        shutil.rmtree(self._work, ignore_errors=True)
        for target in self._targets:
            self._directory(target.partition).mkdir(parents=True)
        partitions = {target.partition: PartitionProgress() for target in self._targets}
        self._progress = Progress(
            source=fingerprint, now_ms=self._clock.time_ms(), partitions=partitions
        )
        self._progress.save(self._progress_path)
        return found is not None

    # -- steps -------------------------------------------------------------------------------------

    def _read(self) -> None:
        progress = self._progress
        buffer = RunBuffer(
            progress,
            {target.partition: self._directory(target.partition) for target in self._targets},
            max_age=self._bounds.max_age,
            before_ms=self._before_ms,
        )
        for batch in self._source.batches(progress.position):
            buffer.take(batch)
            if buffer.held >= self._run_rows:
                buffer.write_runs()
                progress.save(self._progress_path)
            self._on_progress(Step("reading", batch.done, self._source.total))
        buffer.write_runs()
        progress.all_read = True
        progress.save(self._progress_path)

    def _write_files(self, partition: int) -> None:
        of_partition = self._progress.partitions[partition]
        directory = self._directory(partition)
        paths = [run_path(directory, number) for number in range(self._progress.runs)]
        runs = open_runs([path for path in paths if path.exists()])
        bounds = bounds_of_ranges(runs, self._range_rows)
        if of_partition.starts_ms is None:
            histogram = TimeHistogram(of_partition.first_ms or 0, of_partition.last_ms or 0)
            for number, entries in enumerate(merge(runs, bounds)):
                histogram.add(entries)
                self._on_progress(Step(f"sorting partition {partition}", number, len(bounds)))
            of_partition.starts_ms = list(self._cut_offs(partition, histogram))
            of_partition.ids = int(histogram.counts.sum())
            self._progress.save(self._progress_path)
        cutoffs = GenerationCutoffs(tuple(of_partition.starts_ms))
        for number in range(of_partition.ranges, len(bounds)):
            self._on_progress(Step(f"writing partition {partition}", number, len(bounds)))
            entries = merged(runs, bounds, number)
            files = write_sst_files(directory, number, entries, cutoffs, self._bounds)
            of_partition.tables += files
            of_partition.left_out += len(entries) - sum(file.ids for file in files)
            of_partition.ranges = number + 1
            self._progress.save(self._progress_path)

    def _cut_offs(self, partition: int, histogram: TimeHistogram) -> tuple[int, ...]:
        try:
            return plan_cutoffs(histogram, self._bounds).starts_ms
        except TooManyAtOnce as error:
            raise InvalidConfig(
                f"partition {partition}: {error} into spec.store.window.maxBytes, so the oldest of them are "
                "not known: raise maxBytes, or give finer times"
            ) from None

    def _install(self, target: Target) -> None:
        of_partition = self._progress.partitions[target.partition]
        building = target.state.root / "db.bootstrap"
        self._on_progress(Step(f"installing partition {target.partition}", 0, 1))
        build_store(
            building,
            of_partition.tables,
            self._directory(target.partition),
            self._bounds,
            output_position=target.output_position,
            truncated=of_partition.left_out > 0,
            aged_ms=self._progress.now_ms,
        )
        target.state.discard_store()  # without an identity, so no worker uses it
        sync_to_disk(building)
        building.rename(target.state.database)
        sync_to_disk(target.state.root)
        oldest = min((table.first_seen_ms for table in of_partition.tables), default=None)
        record = BootstrapRecord(
            source=self._progress.source,
            created=self._clock.now(),
            ids=of_partition.ids - of_partition.left_out,
            repeated=of_partition.taken - of_partition.ids,
            left_out=of_partition.left_out,
            oldest=None if oldest is None else datetime.fromtimestamp(oldest / 1000, UTC),
        )
        write_record(target.state, record)
        target.state.record(target.identity)

    # -- paths and records --------------------------------------------------------------------------

    @property
    def _progress_path(self) -> Path:
        return self._work / "progress.json"

    def _directory(self, partition: int) -> Path:
        return self._work / f"partition-{partition}"

    def _records(self) -> dict[int, BootstrapRecord]:
        found = {target.partition: read_record(target.state) for target in self._targets}
        return {partition: record for partition, record in found.items() if record}


def _is_done(target: Target, fingerprint: Json) -> bool:
    """Return whether this bootstrap has filled the store.

    Raises IdentityRefused if something else has.
    """
    recorded = target.state.recorded(target.identity.stream, target.partition)
    if recorded is None:
        return False
    record = read_record(target.state)
    if recorded == target.identity and record is not None and record.source == fingerprint:
        return True
    raise IdentityRefused(
        f"state directory {target.state.root} has a store already, and a bootstrap is for a new stream: to start "
        "again, stop its worker, delete the directory and run this again; the worker reads the ids in the output "
        "topic"
    )
