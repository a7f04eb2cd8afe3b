"""Supervise one worker process: start it, follow its status, restart it.

The fleet calls it.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from dedupe_crds.status.worker import WorkerStatus
from dedupe_local.run.supervised_process import SupervisedProcess
from dedupe_local.state_dir import StateDir
from dedupe_worker.store.inverse_bloom.capacity import WORKERS_HERE


@dataclass(frozen=True, kw_only=True)
class WorkerView:
    """One partition as seen from outside at one moment.

    `status` is None while the worker does not answer. `last_exit` describes the last exit until the worker is ready
    again. `consumed`, `duplicates` and `missing_ids` (by why) count records since the fleet's start, over all processes
    of the partition, as far as their last status before the end reports them.
    """

    partition: int
    pid: int | None = None
    status: WorkerStatus | None = None
    restarts: int = 0
    consumed: int = 0
    duplicates: int = 0
    missing_ids: Mapping[str, int] = field(default_factory=dict)
    last_exit: str | None = None


class WorkerProcess(SupervisedProcess[WorkerStatus]):
    """A worker and its successors, one of `workers` on this machine.

    Any thread may read `view`.
    """

    def __init__(
        self,
        partition: int,
        state: StateDir,
        http: httpx.Client,
        kafka_properties: Path | None,
        *,
        workers: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.partition = partition
        self._state = state
        self._kafka_properties = kafka_properties
        self._earlier_consumed = self._earlier_duplicates = 0
        self._consumed = self._duplicates = 0
        self._earlier_missing_ids: Counter[str] = Counter()
        self._missing_ids: Counter[str] = Counter()
        super().__init__(
            f"worker of partition {partition}",
            state.partition(partition),
            http,
            log="worker.log",
            environment={**os.environ, WORKERS_HERE: str(workers)},
            clock=clock,
        )

    def publish(self) -> None:
        """Make the present state visible as `view`."""
        self.view = WorkerView(
            partition=self.partition,
            pid=self.pid,
            status=self.status,
            restarts=self.restarts,
            consumed=self._earlier_consumed + self._consumed,
            duplicates=self._earlier_duplicates + self._duplicates,
            missing_ids=self._earlier_missing_ids + self._missing_ids,
            last_exit=self.last_exit,
        )

    def command(self) -> list[str | Path]:
        """Return the command line of the worker."""
        properties = self._kafka_properties
        return [
            *(sys.executable, "-m", "dedupe_worker"),
            *("--config", self._state.manifest),
            *("--partition", str(self.partition)),
            *("--state-dir", self._state.partition(self.partition)),
            *("--http", "127.0.0.1:0"),
            *("--endpoint-file", self.endpoint),
            *("--admin-token-file", self._state.admin_token),
            *(("--kafka-properties", properties) if properties else ()),
        ]

    def read_status(self, body: bytes) -> WorkerStatus:
        """Parse a worker's status."""
        return WorkerStatus.model_validate_json(body)

    def is_ready(self, status: WorkerStatus) -> bool:
        """Return whether the worker has caught up and passes messages."""
        return status.ready

    def count(self, status: WorkerStatus) -> None:
        """Take its counters."""
        self._consumed = status.counts.consumed
        self._duplicates = status.counts.duplicates
        self._missing_ids = Counter(status.counts.missing_ids)

    def close_counts(self) -> None:
        """Add its last counters to the totals."""
        self._earlier_consumed += self._consumed
        self._earlier_duplicates += self._duplicates
        self._earlier_missing_ids += self._missing_ids
        self._consumed = self._duplicates = 0
        self._missing_ids = Counter()
