"""A buffer of the ids that are read, until there are enough for a run.

`job` calls this while it reads the source.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import numpy as np

from dedupe_worker.bootstrap.progress import Progress
from dedupe_worker.bootstrap.source import Batch
from dedupe_worker.store.external_sort import Entries, write_run


def run_path(directory: Path, number: int) -> Path:
    """Return where a run is, below its partition's directory."""
    return directory / f"run-{number:06d}.npy"


class RunBuffer:
    """The ids that wait for a run: `take` batches, then `write_runs`.

    `progress` is up to date after both; the caller saves it after the second.

    `directories` are those of the partitions wanted. Only ids are taken that were seen within `max_age` and, if given,
    before `before_ms`.
    """

    def __init__(
        self,
        progress: Progress,
        directories: Mapping[int, Path],
        *,
        max_age: timedelta,
        before_ms: int | None,
    ) -> None:
        self.held = 0
        self._progress = progress
        self._directories = directories
        self._waiting: dict[int, list[Entries]] = {partition: [] for partition in directories}
        self._oldest_ms = progress.now_ms - max_age // timedelta(milliseconds=1)
        self._end_ms = progress.now_ms + 1 if before_ms is None else before_ms

    def take(self, batch: Batch) -> None:
        """Take the ids of a batch that are wanted, and count the others."""
        entries = batch.entries
        seen_ms = entries["position"]
        # A producer whose clock is ahead must not make ids last longer than the window does.
        np.minimum(seen_ms, self._progress.now_ms, out=seen_ms)
        new_enough = seen_ms > self._oldest_ms
        old_enough = seen_ms < self._end_ms
        for partition in self._waiting:
            here = batch.partitions == partition
            self._progress.too_old += int(np.count_nonzero(here & ~new_enough))
            self._progress.too_new += int(np.count_nonzero(here & ~old_enough))
            wanted = here & new_enough & old_enough
            if wanted.any():
                self._hold(partition, entries if wanted.all() else entries[wanted])
        self._progress.without_id += batch.without_id
        self._progress.position, self._progress.done = batch.position, batch.done

    def write_runs(self) -> None:
        """Write a run for each partition that has ids."""
        for partition, waiting in self._waiting.items():
            if waiting:
                path = run_path(self._directories[partition], self._progress.runs)
                write_run(path, np.concatenate(waiting))
                waiting.clear()
        self._progress.runs += 1
        self.held = 0

    def _hold(self, partition: int, entries: Entries) -> None:
        self._waiting[partition].append(entries)
        count = len(entries)
        self.held += count
        of_partition = self._progress.partitions[partition]
        of_partition.taken += count
        first, last = int(entries["position"].min()), int(entries["position"].max())
        of_partition.first_ms = min(first, of_partition.first_ms or first)
        of_partition.last_ms = max(last, of_partition.last_ms or last)
