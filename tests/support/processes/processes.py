"""Worker processes: start, watch and kill them as a supervisor would."""

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx

from dedupe_crds.status.worker import WorkerStatus
from tests.support.crashes.steps import Crash
from tests.support.patience import HANG_SECONDS, LONGEST_SECONDS, wait_for
from tests.support.processes.forked import ForkedProcess
from tests.support.processes.loopback import HTTP
from tests.support.traffic.streams import TestStream

GRACE_SECONDS = 60.0
"""The time that a worker may take to stop after SIGTERM."""

_LOG_LINES = 20

Held = TypeVar("Held")


class Readiness(NamedTuple):
    """The answer of GET /readyz."""

    http_status: int
    body: dict[str, Any]


class WorkerProcess:
    """A run of a worker; a restart is another object with the same state directory.

    It has its own process group and dies with this process. Its log is next to its state directory. It runs `module`,
    with `environment` added to this process's.
    """

    def __init__(
        self,
        stream: TestStream,
        partition: int,
        state_dir: Path,
        *,
        arguments: Sequence[str | Path] = (),
        module: str = "dedupe_worker",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.stream = stream
        self.partition = partition
        self.state_dir = state_dir
        run = len(list(state_dir.parent.glob(f"{state_dir.name}.*.log")))
        self.log_path = state_dir.parent / f"{state_dir.name}.{run}.log"
        self._endpoint_file = self.log_path.with_suffix(".endpoint")
        state_dir.mkdir(parents=True, exist_ok=True)
        options: list[str | Path] = ["--config", stream.manifest, "--partition", str(partition)]
        options += ["--state-dir", state_dir, "--http", "127.0.0.1:0"]
        options += ["--endpoint-file", self._endpoint_file, *arguments]
        self._process = ForkedProcess(module, options, self.log_path, environment or {})
        self.pid = self._process.pid

    # -- its status --------------------------------------------------------------------------------

    def status(self) -> WorkerStatus:
        """GET /status. Raises httpx.TransportError if the worker does not answer."""
        return WorkerStatus.model_validate_json(self.get("/status").raise_for_status().content)

    def readiness(self) -> Readiness:
        """GET /readyz. Raises httpx.TransportError if the worker does not answer."""
        answer = self.get("/readyz")
        return Readiness(answer.status_code, answer.json())

    def get(self, path: str) -> httpx.Response:
        """GET any path of the worker."""
        return HTTP.get(f"http://{self.endpoint()}{path}", timeout=HANG_SECONDS)

    def endpoint(self) -> str:
        """Return HOST:PORT of its HTTP server; wait until it has one."""
        self.wait_until(self._endpoint_file.exists, "it has an HTTP endpoint")
        return self._endpoint_file.read_text().strip()

    def logs(self) -> list[dict[str, Any]]:
        """Return its log lines; a line that is not JSON has the key `unstructured`."""
        return [_log_line(line) for line in self.log_path.read_text().splitlines()]

    # -- waiting for it ----------------------------------------------------------------------------

    def wait_until(
        self,
        condition: Callable[[], Held | None],
        what: str,
        *,
        deadline_seconds: float = LONGEST_SECONDS,
    ) -> Held:
        """Wait for a condition.

        Raises AssertionError, with its log, if the worker ends first or time is over.
        """

        def holds() -> Held | None:
            held = condition()
            if not held and (code := self._process.poll()) is not None:
                raise AssertionError(f"ended with {code} before: {what}\n{self._explain()}")
            return held

        return wait_for(holds, what, deadline_seconds=deadline_seconds, explain=self._explain)

    def wait_until_ready(self, *, deadline_seconds: float = LONGEST_SECONDS) -> None:
        """Wait until it has reconciled and processes messages."""
        self.wait_until(
            lambda: self.readiness().http_status == 200,
            "it is ready",
            deadline_seconds=deadline_seconds,
        )

    def wait_until_caught_up(self, *, deadline_seconds: float = LONGEST_SECONDS) -> None:
        """Wait until it has committed all messages that are in its input now."""
        end = self.stream.ends()[self.partition]
        self.wait_until(
            lambda: self.stream.progress().get(self.partition, 0) >= end,
            f"input offset {end} of partition {self.partition} is committed",
            deadline_seconds=deadline_seconds,
        )
        self.stream.settle()

    def wait_until_ended(self, *, deadline_seconds: float = LONGEST_SECONDS) -> int:
        """Wait for its end; return its exit code, or minus a signal's number."""
        wait_for(
            lambda: self._process.poll() is not None,
            "it has ended",
            deadline_seconds=deadline_seconds,
            explain=self._explain,
        )
        return self._process.wait()

    # -- ending it ---------------------------------------------------------------------------------

    def sigterm(self, *, deadline_seconds: float = GRACE_SECONDS) -> int:
        """Send SIGTERM; return the exit code. Raises AssertionError if it takes longer."""
        self._process.terminate()
        return self.wait_until_ended(deadline_seconds=deadline_seconds)

    def sigkill(self) -> None:
        """Send SIGKILL, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Suspend it (SIGSTOP), as if its node hung; `resume` continues it."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused worker (SIGCONT)."""
        self._process.send_signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        """Return whether the process is running."""
        return self._process.poll() is None

    def _explain(self) -> str:
        lines = self.log_path.read_text().splitlines()[-_LOG_LINES:]
        return "\n".join([f"the last of {self.log_path}:", *lines])


class Workers:
    """Starts workers for a test, with a state directory for each stream and partition."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[WorkerProcess] = []

    def start(
        self,
        stream: TestStream,
        partition: int = 0,
        *,
        state_dir: Path | None = None,
        arguments: Sequence[str | Path] = (),
        crash: Crash | None = None,
    ) -> WorkerProcess:
        """Start a worker.

        Without `state_dir` it uses the default directory of its partition. `arguments` are added to its command line.
        `crash` is where it kills itself.
        """
        worker = WorkerProcess(
            stream,
            partition,
            state_dir or self.state_dir(stream, partition),
            arguments=arguments,
            module="tests.support.crashes.crashing_worker" if crash else "dedupe_worker",
            environment=crash.environment if crash else None,
        )
        self._started.append(worker)
        return worker

    def state_dir(self, stream: TestStream, partition: int = 0) -> Path:
        """Return the default state directory of this partition's workers."""
        return self._directory / f"{stream.name}-{partition}"

    def end_all(self) -> None:
        """Kill the workers that still run."""
        for worker in self._started:
            worker.sigkill()


def _log_line(line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except json.JSONDecodeError:
        return {"unstructured": line}
    return parsed if isinstance(parsed, dict) else {"unstructured": line}
