"""One worker process for each partition of a stream's input topic, kept running.

with StateDir(path) as state, Fleet(stream, state) as fleet:
    fleet.wait_drained(stall_seconds=120)
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

import httpx

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import WorkerStatus
from dedupe_kafka.client import read_properties
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import TopicUnusable
from dedupe_local.errors import NotDrained
from dedupe_local.run import child_process as tether
from dedupe_local.run.drain import Drain
from dedupe_local.run.worker_process import WorkerProcess, WorkerView
from dedupe_local.state_dir import StateDir

STOP_SECONDS = 10.0

_TICK_SECONDS = 0.1
_ASK_TIMEOUT_SECONDS = 1.0


class Fleet:
    """The workers of a stream on this machine; they end when this process ends, however it does.

    The workers are started with the stream as it is given; see `with_bootstrap_servers`.
    `kafka_properties` is a file of librdkafka properties. Only one fleet may run for a stream:
    a second one would fence the first, and the lock on `state` sees to it on this machine.
    """

    def __init__(
        self, stream: DedupeStream, state: StateDir, *, kafka_properties: Path | None = None
    ) -> None:
        self.stream = stream
        self.warnings: Sequence[str] = ()
        self._state = state
        self._kafka_properties = kafka_properties.absolute() if kafka_properties else None
        self._cluster = Cluster(
            stream.spec.kafka.bootstrap_servers, read_properties(kafka_properties)
        )
        self._http = httpx.Client(timeout=_ASK_TIMEOUT_SECONDS, trust_env=False)
        self._workers: list[WorkerProcess] = []
        self._stop = threading.Event()
        self._supervisor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fleet")
        self._supervision: Future[None] | None = None
        self._graceful = True

    def start(self) -> None:
        """Create or check the output topic and start the workers; does not wait for them.

        What it found questionable is in `warnings`.

        Raises:
            TopicUnusable: the output topic would lose or alter messages.
            StreamError: Kafka does not answer, or refuses.
        """
        topics = self._cluster.ensure_output(self.stream)
        if fatal := [problem.message for problem in topics.problems if problem.fatal]:
            raise TopicUnusable("\n".join(fatal))
        self.warnings = [problem.message for problem in topics.problems]
        self._state.write_manifest(self.stream)
        self._state.ensure_admin_token()
        self._workers = [
            WorkerProcess(
                number,
                self._state,
                self._http,
                self._kafka_properties,
                workers=topics.partitions,
            )
            for number in range(topics.partitions)
        ]
        self._supervision = self._supervisor.submit(self._supervise)

    def stop(self) -> bool:
        """Stop all workers within 10 s in all; returns whether each ended well by itself."""
        self._stop.set()
        self._supervisor.shutdown()
        self._http.close()
        return self._graceful

    def views(self) -> list[WorkerView]:
        """Return what is known of each partition, in their order."""
        return [worker.view for worker in self._workers]

    def statuses(self) -> list[WorkerStatus | None]:
        """Return what each worker last said of itself; None if it does not answer."""
        return [view.status for view in self.views()]

    def pid(self, partition: int) -> int | None:
        """Return the process id of a partition's worker; None while none runs."""
        return self._workers[partition].view.pid

    def wait(self, seconds: float) -> None:
        """Wait while the fleet runs.

        Raises:
            WorkerEnded: a worker ended for good, and the others were stopped.
        """
        if self._supervision is None:
            raise RuntimeError("The fleet was not started.")
        try:
            self._supervision.result(timeout=seconds)
        except TimeoutError:
            return
        raise RuntimeError("The fleet was stopped.")

    def wait_ready(self, timeout_seconds: float) -> None:
        """Wait until every worker is ready.

        Raises:
            TimeoutError: not all were in time.
            WorkerEnded: a worker ended for good.
        """
        deadline = time.monotonic() + timeout_seconds
        while not all(status is not None and status.ready for status in self.statuses()):
            if time.monotonic() >= deadline:
                raise TimeoutError(f"Not every worker was ready within {timeout_seconds:.0f} s.")
            self.wait(_TICK_SECONDS)

    def drain(self, stall_seconds: float) -> Drain:
        """Return a drain to the end of the input as it is now."""
        targets = self._cluster.end_offsets(self.stream.spec.input.topic, len(self._workers))
        return Drain(targets, stall_seconds, time.monotonic())

    def advance(self, drain: Drain) -> bool:
        """Show a drain the workers as they are; returns whether it is done.

        Raises:
            NotDrained: a partition makes no progress.
        """
        now = time.monotonic()
        drain.observe(self.statuses(), now)
        if stalled := drain.stalled(now):
            raise NotDrained(f"No progress any more: {'; '.join(stalled)}.")
        return drain.done

    def wait_drained(self, stall_seconds: float = 120.0) -> None:
        """Wait until every partition has reached the end its input has now.

        Raises:
            NotDrained: a partition made no progress for `stall_seconds`.
            WorkerEnded: a worker ended for good.
        """
        drain = self.drain(stall_seconds)
        while not self.advance(drain):
            self.wait(_TICK_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _supervise(self) -> None:
        try:
            while not self._stop.is_set():
                for worker in self._workers:
                    worker.tick()
                self._stop.wait(_TICK_SECONDS)
        finally:
            running = [worker.process for worker in self._workers if worker.process]
            tether.stop(running, deadline_seconds=STOP_SECONDS)
            self._graceful = all(process.returncode == 0 for process in running)
            for worker in self._workers:
                worker.retire()


def with_bootstrap_servers(stream: DedupeStream, bootstrap_servers: str) -> DedupeStream:
    """Return the stream on another cluster."""
    kafka = stream.spec.kafka.model_copy(update={"bootstrap_servers": bootstrap_servers})
    spec = stream.spec.model_copy(update={"kafka": kafka})
    return stream.model_copy(update={"spec": spec})
