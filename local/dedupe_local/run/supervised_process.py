"""Supervise a child process: start it, ask for its status, restart it.

`worker_process` and `router_process` say what is started and what is shown of it.
"""

import random
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from dedupe_local.errors import WorkerEnded
from dedupe_local.run import child_process
from dedupe_local.run.restart_policy import NoRestart, after_exit, describe_exit, last_error

_POLL_SECONDS = 0.5
_LARGEST_LOG_BYTES = 16 * 2**20  # a larger log is renamed when its process restarts
_TAIL_BYTES = 64 * 2**10

Status = TypeVar("Status", bound=BaseModel)


class SupervisedProcess(ABC, Generic[Status]):
    """A process and its successors, which write to one log.

    `name` is for users, such as "worker of partition 3". One thread calls `tick`.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        http: httpx.Client,
        *,
        log: str,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None
        self.log = directory / log
        self.endpoint = directory / "endpoint"
        self.status: Status | None = None
        self.last_exit: str | None = None
        self._http = http
        self._clock = clock
        self._environment = environment
        self._logged = 0  # bytes in the log before this process
        self._start_at = 0.0
        self._poll_at = 0.0
        self._ready_since: float | None = None
        self._starts = self._failures = 0
        self.publish()

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
            self.publish()

    def retire(self) -> None:
        """Forget a process that was stopped; its last counts stay in the totals."""
        self.process = self.status = None
        self.publish()

    @property
    def pid(self) -> int | None:
        """Return the process id; None while none runs."""
        return self.process.pid if self.process else None

    @property
    def restarts(self) -> int:
        """Return how often it was started again."""
        return max(0, self._starts - 1)

    @abstractmethod
    def publish(self) -> None:
        """Make the present state visible to other threads."""

    @abstractmethod
    def command(self) -> list[str | Path]:
        """Return the command line."""

    @abstractmethod
    def read_status(self, body: bytes) -> Status:
        """Parse the body of GET /status. Raises ValidationError."""

    @abstractmethod
    def is_ready(self, status: Status) -> bool:
        """Return whether the process does its work."""

    @abstractmethod
    def count(self, status: Status) -> None:
        """Take the counters of a status."""

    @abstractmethod
    def close_counts(self) -> None:
        """Add the last counters of a process that has ended to the totals."""

    def _start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.endpoint.unlink(missing_ok=True)
        if self.log.exists() and self.log.stat().st_size > _LARGEST_LOG_BYTES:
            self.log.rename(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as log:
            self._logged = log.tell()
            self.process = child_process.spawn(self.command(), output=log, env=self._environment)
        self._starts += 1
        self._ready_since = None

    def _poll_status(self, now: float) -> None:
        self._poll_at = now + _POLL_SECONDS
        try:
            address = self.endpoint.read_text().strip()
            answer = self._http.get(f"http://{address}/status")
            status = self.status = self.read_status(answer.content)
        except (OSError, httpx.HTTPError, httpx.InvalidURL, ValidationError):
            self.status = None  # it still starts, or is busy; `tick` notices its end
            return
        self.count(status)
        if not self.is_ready(status):
            self._ready_since = None
        elif self._ready_since is None:
            self._ready_since = now
            self.last_exit = None

    def _handle_exit(self, code: int, now: float) -> None:
        how = describe_exit(code)
        if code >= 0 and (error := last_error(self._log_lines())):
            how = f"{how}: {error}"
        self.process = self.status = None
        self.close_counts()
        decision = after_exit(
            code,
            ready_seconds=now - self._ready_since if self._ready_since else 0.0,
            failures=self._failures,
            jitter=random.random(),  # noqa: S311 (spreads restarts out, nothing secret)
        )
        if isinstance(decision, NoRestart):
            raise WorkerEnded(
                f"The {self.name} {how}. A restart would end the same way: see its log, {self.log}."
            )
        self._failures = decision.failures
        self._start_at = now + decision.wait_seconds
        self.last_exit = f"{how}; restarts in {decision.wait_seconds:.1f} s"

    def _log_lines(self) -> list[str]:
        with self.log.open("rb") as log:
            log.seek(max(self._logged, self.log.stat().st_size - _TAIL_BYTES))
            return log.read().decode(errors="replace").splitlines()
