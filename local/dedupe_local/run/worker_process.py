"""One partition's worker process: start it, poll its status, restart it.

The fleet calls `tick`. Invariant: a partition has at most one process at a time.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import ValidationError

from dedupe_crds.status.worker import WorkerStatus
from dedupe_local.errors import WorkerEnded
from dedupe_local.run import child_process
from dedupe_local.run.restart_policy import NoRestart, after_exit, describe_exit, last_error
from dedupe_local.state_dir import StateDir
from dedupe_worker.store.inverse_bloom.capacity import WORKERS_HERE

_POLL_SECONDS = 0.5
_LARGEST_LOG_BYTES = 16 * 2**20  # a larger log is renamed when its worker restarts
_TAIL_BYTES = 64 * 2**10


@dataclass(frozen=True, kw_only=True)
class WorkerView:
    """One partition as seen from outside at one moment.

    `status` is None while the worker does not answer. `last_exit` describes the last exit until the worker is ready
    again. `consumed` and `duplicates` count records since the fleet's start, over all processes of the partition, as
    far as their last status before the end reports them.
    """

    partition: int
    pid: int | None = None
    status: WorkerStatus | None = None
    restarts: int = 0
    consumed: int = 0
    duplicates: int = 0
    last_exit: str | None = None


class WorkerProcess:
    """A worker and its successors, one of `workers` on this machine.

    One thread calls `tick`; any thread may read `view`. `jitter` returns a random number from 0 to 1.
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
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.partition = partition
        self.process: subprocess.Popen[bytes] | None = None
        self.view = WorkerView(partition=partition)
        self._http = http
        self._clock = clock
        self._jitter = jitter
        self._state = state
        self._kafka_properties = kafka_properties
        self._environment = {**os.environ, WORKERS_HERE: str(workers)}
        self._log = state.partition(partition) / "worker.log"
        self._endpoint = state.partition(partition) / "endpoint"
        self._logged = 0  # bytes in the log before this process
        self._start_at = 0.0
        self._poll_at = 0.0
        self._ready_since: float | None = None
        self._status: WorkerStatus | None = None
        self._last_exit: str | None = None
        self._starts = self._failures = 0
        self._earlier_consumed = self._earlier_duplicates = 0
        self._consumed = self._duplicates = 0

    def tick(self) -> None:
        """Do what is due: start the process, poll its status, or handle its exit.

        Raises:
            WorkerEnded: a restart would not help.
        """
        now = self._clock()
        try:
            if self.process is None:
                if now >= self._start_at:
                    self._start()
            elif (code := self.process.poll()) is not None:
                self._handle_exit(code, now)
            elif now >= self._poll_at:
                self._poll_status(now)
        finally:
            self._publish()

    def retire(self) -> None:
        """Forget a process that was stopped; its last counts stay in the totals."""
        self.process = self._status = None
        self._publish()

    def _publish(self) -> None:
        self.view = WorkerView(
            partition=self.partition,
            pid=self.process.pid if self.process else None,
            status=self._status,
            restarts=max(0, self._starts - 1),
            consumed=self._earlier_consumed + self._consumed,
            duplicates=self._earlier_duplicates + self._duplicates,
            last_exit=self._last_exit,
        )

    def _start(self) -> None:
        self._log.parent.mkdir(exist_ok=True)
        self._endpoint.unlink(missing_ok=True)
        if self._log.exists() and self._log.stat().st_size > _LARGEST_LOG_BYTES:
            self._log.rename(self._log.with_suffix(".log.1"))
        with self._log.open("ab") as log:
            self._logged = log.tell()
            self.process = child_process.spawn(self._command(), output=log, env=self._environment)
        self._starts += 1
        self._ready_since = None

    def _command(self) -> list[str | Path]:
        properties = self._kafka_properties
        return [
            *(sys.executable, "-m", "dedupe_worker"),
            *("--config", self._state.manifest),
            *("--partition", str(self.partition)),
            *("--state-dir", self._state.partition(self.partition)),
            *("--http", "127.0.0.1:0"),
            *("--endpoint-file", self._endpoint),
            *("--admin-token-file", self._state.admin_token),
            *(("--kafka-properties", properties) if properties else ()),
        ]

    def _poll_status(self, now: float) -> None:
        self._poll_at = now + _POLL_SECONDS
        try:
            address = self._endpoint.read_text().strip()
            answer = self._http.get(f"http://{address}/status")
            self._status = WorkerStatus.model_validate_json(answer.content)
        except (OSError, httpx.HTTPError, httpx.InvalidURL, ValidationError):
            self._status = None  # it still starts, or is busy; `tick` notices its end
            return
        self._consumed = self._status.counts.consumed
        self._duplicates = self._status.counts.duplicates
        if not self._status.ready:
            self._ready_since = None
        elif self._ready_since is None:
            self._ready_since = now
            self._last_exit = None

    def _handle_exit(self, code: int, now: float) -> None:
        how = describe_exit(code)
        if code >= 0 and (error := last_error(self._log_lines())):
            how = f"{how}: {error}"
        self.process = self._status = None
        self._earlier_consumed += self._consumed
        self._earlier_duplicates += self._duplicates
        self._consumed = self._duplicates = 0
        decision = after_exit(
            code,
            ready_seconds=now - self._ready_since if self._ready_since else 0.0,
            failures=self._failures,
            jitter=self._jitter(),
        )
        if isinstance(decision, NoRestart):
            raise WorkerEnded(
                f"The worker of partition {self.partition} {how}. A restart would end the same way: see its log, "
                f"{self._log}."
            )
        self._failures = decision.failures
        self._start_at = now + decision.wait_seconds
        self._last_exit = f"{how}; restarts in {decision.wait_seconds:.1f} s"

    def _log_lines(self) -> list[str]:
        with self._log.open("rb") as log:
            log.seek(max(self._logged, self._log.stat().st_size - _TAIL_BYTES))
            return log.read().decode(errors="replace").splitlines()
