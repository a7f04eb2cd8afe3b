"""Processes that are measured or that measure; they end with this process."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.harness.measure import cpu_seconds_of
from benchmarks.harness.stream import NAMESPACE, manifest_of
from benchmarks.harness.testbed import GroupOffset
from benchmarks.harness.topics import ensure_topics
from dedupe_crds.manifest import load_manifest
from dedupe_crds.status.worker import ReconcileStatus, WorkerStatus
from dedupe_kafka.side_topics import metadata_topics, routed_topics
from dedupe_local.run import child_process as tether

_REPOSITORY: Final = Path(__file__).parents[2]
_POLL_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 30.0
_COMMAND_SECONDS: Final = 70.0  # the worker's own limit for a command is 60 s
_TOKEN: Final = "bench"  # noqa: S105 # of workers on this machine's own address
_LOG_LINES: Final = 15


Environment = Mapping[str, str] | None
"""Variables of a process in addition to this one's."""


class BenchmarkFailed(Exception):
    """A benchmark could not be completed."""


def python_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return variables with which a Python process finds this repository's packages."""
    paths = filter(None, (str(_REPOSITORY), inherited.get("PYTHONPATH")))
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths)}


class Process:
    """A Python module run as a process, ended with SIGTERM by its context manager.

    Its output goes to `log`. `environment` are variables in addition to this process's own.
    """

    def __init__(
        self,
        module: str,
        *arguments: object,
        log: Path,
        environment: Environment = None,
    ) -> None:
        self._module = module
        self._log = log
        command = [sys.executable, "-m", module, *map(str, arguments)]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            env = {**python_environment(os.environ), **(environment or {})}
            self._process = tether.spawn(command, output=output, env=env)
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it."""
        tether.stop([self._process], deadline_seconds=_STOP_SECONDS)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        self._process.kill()
        self._process.wait()

    def wait(self, deadline_seconds: float) -> None:
        """Wait for its own end. Raises BenchmarkFailed if it fails or takes longer."""
        try:
            code = self._process.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            raise BenchmarkFailed(self._explain(f"not done in {deadline_seconds:.0f} s")) from None
        if code != 0:
            raise BenchmarkFailed(self._explain(f"ended with {code}"))

    def wait_until(
        self,
        condition: Callable[[], bool],
        what: str,
        *,
        deadline_seconds: float = 120.0,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        """Wait for a condition.

        Raises BenchmarkFailed if the process ends before it holds, or at the deadline.
        """
        deadline = time.monotonic() + deadline_seconds
        while not condition():
            if (code := self._process.poll()) is not None:
                if code == 0 and condition():
                    return
                raise BenchmarkFailed(self._explain(f"ended with {code} before: {what}"))
            if time.monotonic() > deadline:
                raise BenchmarkFailed(self._explain(f"not in {deadline_seconds:.0f} s: {what}"))
            time.sleep(poll_seconds)

    def _explain(self, what: str) -> str:
        lines = self._log.read_text().splitlines()[-_LOG_LINES:]
        return "\n".join([f"{self._module} {what}; the last of {self._log}:", *lines])


class Started(NamedTuple):
    """Seconds of a worker's start until it was ready, CPU seconds by then, and its catch-up."""

    ready_seconds: float
    cpu_seconds: float
    done: ReconcileStatus


class ServingProcess(Process):
    """A process with an HTTP server, which has its files in `home`."""

    def __init__(
        self,
        module: str,
        *arguments: object,
        home: Path,
        log: str,
        environment: Environment = None,
    ) -> None:
        self._endpoint = home / "endpoint"
        self._endpoint.unlink(missing_ok=True)
        self._http = httpx.Client(timeout=10.0)
        address = ("--http", "127.0.0.1:0", "--endpoint-file", self._endpoint)
        super().__init__(module, *arguments, *address, log=home / log, environment=environment)

    def wait_until_ready(self, deadline_seconds: float = 120.0) -> None:
        """Wait until it is at work."""
        self.wait_until(self._is_ready, "it is ready", deadline_seconds=deadline_seconds)

    def _is_ready(self) -> bool:
        try:
            return self._endpoint.exists() and self._get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def _get(self, path: str) -> httpx.Response:
        return self._http.get(self._url(path))

    def _url(self, path: str) -> str:
        return f"http://{self._endpoint.read_text().strip()}{path}"


class Worker(ServingProcess):
    """A worker on the state directory `home`/state, with the default tuning.

    `tuning` overrides some of it, `spec` are more fields of the manifest's spec, `restore_from` is the snapshot
    that an empty state directory is restored from.
    """

    def __init__(
        self,
        home: Path,
        bootstrap_servers: str,
        input_topic: str,
        output_topic: str,
        tuning: Mapping[str, object] | None = None,
        *,
        spec: Mapping[str, object] | None = None,
        partition: int = 0,
        restore_from: str | None = None,
        environment: Environment = None,
    ) -> None:
        self.began = time.monotonic()
        home.mkdir(parents=True, exist_ok=True)
        self.state_dir = home / "state"
        self.group = f"{NAMESPACE}.{output_topic}"
        self.partition = partition
        self._bootstrap_servers, self._input_topic = bootstrap_servers, input_topic
        manifest, token = home / "stream.yaml", home / "token"
        token.write_text(_TOKEN)
        worker = {"worker": {"tuning": dict(tuning or {})}}
        manifest.write_text(
            manifest_of(bootstrap_servers, input_topic, output_topic, {**worker, **(spec or {})})
        )
        stream = load_manifest(manifest)
        if metadata_topics(stream.spec) or routed_topics(stream.spec) or stream.spec.repartition:
            ensure_topics(stream, bootstrap_servers)
        super().__init__(
            "dedupe_worker",
            *("--config", manifest),
            *("--partition", partition),
            *("--state-dir", self.state_dir),
            *("--admin-token-file", token),
            *(("--restore-from", restore_from) if restore_from else ()),
            home=home,
            log="worker.log",
            environment=environment,
        )

    def wait_until_committed(self, end: int, deadline_seconds: float = 600.0) -> None:
        """Wait until it has read its input up to an offset, and committed that."""
        committed = GroupOffset(
            self._bootstrap_servers, self.group, self._input_topic, self.partition
        )
        try:
            self.wait_until(
                lambda: committed() >= end,
                f"it has committed offset {end}",
                deadline_seconds=deadline_seconds,
            )
        finally:
            committed.close()

    def wait_for_start(self, deadline_seconds: float) -> Started:
        """Wait until it is ready, and return the times of its start."""
        self.wait_until_ready(deadline_seconds)
        ready_seconds = time.monotonic() - self.began
        return Started(ready_seconds, cpu_seconds_of(self.pid), self.reconciled())

    def post(self, path: str, **fields: object) -> bytes:
        """Ask it for something, as the operator does. Raises httpx.HTTPError."""
        answer = self._http.post(
            self._url(path),
            json=fields,
            headers={"Authorization": f"Bearer {_TOKEN}"},
            timeout=_COMMAND_SECONDS,
        )
        return answer.raise_for_status().content

    def status(self) -> WorkerStatus:
        """Return its status."""
        return WorkerStatus.model_validate_json(self._get("/status").content)

    def reconciled(self) -> ReconcileStatus:
        """Return the result of its catch-up. Raises BenchmarkFailed if it has none."""
        done = self.status().reconcile
        if done is None:
            raise BenchmarkFailed("the worker is ready without a reconcile")
        return done

    def stage_seconds(self) -> tuple[int, dict[str, float]]:
        """Return the records it has consumed, and the seconds of each stage of its loop."""
        consumed, stages = 0, {}
        for family in text_string_to_metric_families(self._get("/metrics").text):
            for sample in family.samples:
                if sample.name == "dedupe_stage_seconds_total":
                    stages[sample.labels["stage"]] = sample.value
                elif sample.name == "dedupe_records_consumed_total":
                    consumed = int(sample.value)
        return consumed, stages
