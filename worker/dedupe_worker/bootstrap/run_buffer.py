"""What is read, held until there is enough of it for a run."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import numpy as np

from dedupe_worker.bootstrap.progress import Progress
from dedupe_worker.bootstrap.rows import Rows
from dedupe_worker.bootstrap.runs import run_path, write_run
from dedupe_worker.bootstrap.source import Batch


class Intake:
    """`take` batches, then `write_runs`; `progress` is right after either, and to be saved after the second.

    `directories` are those of the partitions wanted. Only ids are taken that were seen within `max_age` and, if
    given, before `before_ms`.
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
        self._waiting: dict[int, list[Rows]] = {partition: [] for partition in directories}
        self._oldest_ms = progress.now_ms - max_age // timedelta(milliseconds=1)
        self._end_ms = progress.now_ms + 1 if before_ms is None else before_ms

    def take(self, batch: Batch) -> None:
        """Hold what of a batch is wanted, and count the rest."""
        rows = batch.rows
        # A producer whose clock is ahead must not make ids last longer than the window does.
        rows[2] = np.minimum(rows[2], np.uint64(self._progress.now_ms))
        new_enough = rows[2] > self._oldest_ms
        old_enough = rows[2] < self._end_ms
        for partition in self._waiting:
            here = batch.partitions == partition
            self._progress.too_old += int(np.count_nonzero(here & ~new_enough))
            self._progress.too_new += int(np.count_nonzero(here & ~old_enough))
            wanted = here & new_enough & old_enough
            if wanted.any():
                self._hold(partition, rows if wanted.all() else rows[:, wanted])
        self._progress.without_id += batch.without_id
        self._progress.position, self._progress.done = batch.position, batch.done

    def write_runs(self) -> None:
        """Write what is held, one run for each partition that has some."""
        for partition, waiting in self._waiting.items():
            if waiting:
                path = run_path(self._directories[partition], self._progress.runs)
                write_run(path, np.concatenate(waiting, axis=1))
                waiting.clear()
        self._progress.runs += 1
        self.held = 0

    def _hold(self, partition: int, rows: Rows) -> None:
        self._waiting[partition].append(rows)
        count = rows.shape[1]
        self.held += count
        of_partition = self._progress.partitions[partition]
        of_partition.taken += count
        first, last = int(rows[2].min()), int(rows[2].max())
        of_partition.first_ms = min(first, of_partition.first_ms or first)
        of_partition.last_ms = max(last, of_partition.last_ms or last)
