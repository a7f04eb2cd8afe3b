"""Supervise the processes of a stream: a worker for each partition, and routers.

with StateDir(path) as state, Fleet(stream, state) as fleet:
    fleet.wait_drained(stall_seconds=120)
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Self

import httpx

from dedupe_crds.deadline import Deadline
from dedupe_crds.spec.input import AddedPartitions as AddedPolicy
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import WorkerStatus
from dedupe_kafka.client import read_properties
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import TopicUnusable
from dedupe_kafka.partitioning import PartitioningReason, describe_added, judge_stream
from dedupe_local.errors import NotDrained
from dedupe_local.run import child_process
from dedupe_local.run.added_partitions import AddedPartitions
from dedupe_local.run.direct_drain import DirectDrain
from dedupe_local.run.drain import Drain
from dedupe_local.run.fleet_view import FleetView
from dedupe_local.run.growth import growth_of
from dedupe_local.run.growth_drain import GrowthDrain
from dedupe_local.run.routed_drain import RoutedDrain
from dedupe_local.run.router_process import RouterProcess, RouterView
from dedupe_local.run.stream_changes import with_added, with_partitions
from dedupe_local.run.worker_process import WorkerProcess, WorkerView
from dedupe_local.state_dir import StateDir

STOP_SECONDS = 10.0

_TICK_SECONDS = 0.1
_ASK_TIMEOUT_SECONDS = 1.0
_LOOK_TIMEOUT_SECONDS = 3.0


class Fleet:
    """The workers and routers of a stream here, which cannot outlive this process.

    They get the stream as it is given; see `stream_changes`. `kafka_properties` is a file with
    librdkafka properties. Only one fleet may run for a stream, as a second fleet would fence the first. On this machine
    the lock on `state` ensures that.
    """

    def __init__(
        self,
        stream: DedupeStream,
        state: StateDir,
        *,
        kafka_properties: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream = stream
        self.warnings: Sequence[str] = ()
        self._state = state
        self._clock = clock
        self._kafka_properties = kafka_properties.absolute() if kafka_properties else None
        self._cluster = self._connect()
        self._http = httpx.Client(timeout=_ASK_TIMEOUT_SECONDS, trust_env=False)
        self._workers: list[WorkerProcess] = []
        self._routers: list[RouterProcess] = []
        connect = partial(self._connect, _LOOK_TIMEOUT_SECONDS)
        self._added = AddedPartitions(connect, clock)
        self._growth = growth_of(
            stream, read_properties(kafka_properties), connect, statuses=self.statuses
        )
        self._stop = threading.Event()
        self._supervisor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fleet")
        self._supervision: Future[None] | None = None
        self._graceful = True

    def _connect(self, timeout_seconds: float = 15.0) -> Cluster:
        servers = self.stream.spec.kafka.bootstrap_servers
        properties = read_properties(self._kafka_properties)
        return Cluster(servers, properties, timeout_seconds=timeout_seconds)

    def start(self) -> None:
        """Create or check the output topic and start the workers; do not wait for them.

        Problems of topics that are not fatal are in `warnings`.

        Raises:
            TopicUnusable: the output topic would lose or alter messages.
            StreamError: Kafka does not answer, or refuses.
        """
        topics = self._cluster.ensure_output(self.stream, seen=self._state.partitions())
        if fatal := [problem.message for problem in topics.problems if problem.fatal]:
            raise TopicUnusable("\n".join(fatal))
        self.warnings = [problem.message for problem in topics.problems]
        self._state.write_manifest(self.stream)
        self._state.ensure_admin_token()
        if self._growth is None:
            self._added.partitions = topics.partitions
            self._add_workers(topics.served)
        else:
            self._growth.begin(self._state.partitions())
            self._add_workers(self._growth.workers)
        if self.stream.spec.repartition is not None:
            self._routers = [
                RouterProcess(
                    number, self._state, self._http, self._kafka_properties, clock=self._clock
                )
                for number in range(self.stream.spec.repartition.routers.replicas)
            ]
        self._supervision = self._supervisor.submit(self._supervise)

    def _add_workers(self, until: int) -> None:
        self._workers += [
            WorkerProcess(
                number,
                self._state,
                self._http,
                self._kafka_properties,
                workers=until,
                clock=self._clock,
            )
            for number in range(len(self._workers), until)
        ]

    @property
    def added(self) -> range:
        """Return the partitions that were added to the input, and have no worker."""
        return range(len(self._workers), self._added.partitions)

    def notes(self) -> list[str]:
        """Return what a user should know of the topics while the fleet runs."""
        samples = [status.input.keys for status in self.statuses() if status and status.input.keys]
        found = judge_stream(samples, self.stream.spec)
        silent = found.meet or found.reason is PartitioningReason.NOT_SAMPLED
        by_keys = [] if silent else [f"{found.reason}: {found.message}"]
        added = [describe_added(self.added)] if self.added else []
        routing = {text for view in self.router_views() for text in view.warnings}
        growth = self._growth.notes() if self._growth else []
        return [*self.warnings, *added, *growth, *by_keys, *sorted(routing)]

    @property
    def growing(self) -> bool:
        """Return whether partitions are being added to a stream with routers."""
        return self._growth is not None and self._growth.under_way

    def accept_added(self) -> None:
        """Have workers for added partitions from now on, as if the manifest said so."""
        self.stream = with_added(self.stream, AddedPolicy.ACCEPT)

    def grow(self, partitions: int) -> None:
        """Take a stream with routers to this many partitions, as if the manifest said so."""
        if self._growth is None:
            raise RuntimeError("Only a stream with routers grows.")
        self.stream = with_partitions(self.stream, partitions)
        self._state.write_manifest(self.stream)
        self._growth.ask(self.stream)

    def stop(self) -> bool:
        """Stop routers, then workers; return whether all exited with code 0."""
        self._stop.set()
        if self._growth is not None:
            self._growth.stop()
        self._supervisor.shutdown()
        self._http.close()
        return self._graceful

    def views(self) -> list[WorkerView]:
        """Return the current view of each partition, in order."""
        return [worker.view for worker in self._workers]

    def view(self) -> FleetView:
        """Return the whole current state."""
        return FleetView(
            workers=self.views(),
            routers=self.router_views(),
            added=self._added.lags,
            notes=self.notes(),
            growth=self._growth.status if self._growth else None,
        )

    def router_views(self) -> list[RouterView]:
        """Return the current view of each router; none without spec.repartition."""
        return [router.view for router in self._routers]

    def statuses(self) -> list[WorkerStatus | None]:
        """Return the last status of each worker; None if it does not answer."""
        return [view.status for view in self.views()]

    def pid(self, partition: int) -> int | None:
        """Return the process id of a partition's worker; None while none runs."""
        return self._workers[partition].view.pid

    def wait(self, seconds: float) -> None:
        """Wait while the fleet runs.

        Raises:
            WorkerEnded: a process ended with a final error, and the others were stopped.
        """
        if self._supervision is None:
            raise RuntimeError("The fleet was not started.")
        try:
            self._supervision.result(timeout=seconds)
        except TimeoutError:
            return
        raise RuntimeError("The fleet was stopped.")

    def wait_ready(self, timeout_seconds: float) -> None:
        """Wait until every worker and router is ready.

        Raises:
            TimeoutError: not all were ready in time.
            WorkerEnded: a worker ended with a final error.
        """
        deadline = Deadline(timeout_seconds, clock=self._clock, wait=self.wait)
        if not deadline.wait_for(self._all_ready, poll_seconds=_TICK_SECONDS):
            raise TimeoutError(f"Not every process was ready within {timeout_seconds:.0f} s.")

    def drain(self, stall_seconds: float) -> Drain:
        """Return a drain up to the current end offsets of the input."""
        cluster, now = self._connect(_LOOK_TIMEOUT_SECONDS), self._clock()
        if self._growth is not None:
            views = self.router_views
            routed = RoutedDrain(cluster, self.stream, stall_seconds, now, routers=views)
            known = (routed, self._growth, stall_seconds, now)
            return GrowthDrain(*known, workers=self.views, routers=views)
        topic = self.stream.spec.worker_input
        served = range(len(self._workers))  # what was added waits
        return DirectDrain(cluster, topic, served, stall_seconds, now)

    def advance(self, drain: Drain) -> bool:
        """Update a drain with the current statuses; return whether it is done.

        Raises:
            NotDrained: a partition, or the growth of the stream, makes no progress.
        """
        now = self._clock()
        drain.observe(self.statuses(), now)
        if stalled := drain.stalled(now):
            raise NotDrained(f"No progress any more: {'; '.join(stalled)}.")
        return drain.done

    def wait_drained(self, stall_seconds: float = 120.0) -> None:
        """Wait until every partition has reached the current end of its input.

        Raises:
            NotDrained: a partition, or a growth, made no progress for `stall_seconds`.
            WorkerEnded: a worker ended with a final error.
        """
        drain = self.drain(stall_seconds)
        while not self.advance(drain):
            self.wait(_TICK_SECONDS)

    def _all_ready(self) -> bool:
        statuses = [*self.statuses(), *(view.status for view in self.router_views())]
        return all(status is not None and status.ready for status in statuses)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _supervise(self) -> None:
        try:
            while not self._stop.is_set():
                for each in chain(*self._stages):
                    each.tick()
                if self._growth is None:
                    self._look_for_partitions()
                elif self._growth.workers > len(self._workers):
                    self._add_workers(self._growth.workers)
                self._stop.wait(_TICK_SECONDS)
        finally:
            running = [[each.process for each in stage if each.process] for stage in self._stages]
            # A router and a worker may each take 9 s to end what they have begun.
            seconds = STOP_SECONDS * sum(map(bool, running))
            child_process.stop_in_turn(running, deadline_seconds=seconds, clock=self._clock)
            self._graceful = all(process.returncode == 0 for process in chain(*running))
            for each in chain(*self._stages):
                each.retire()

    @property
    def _stages(self) -> Sequence[Sequence[WorkerProcess | RouterProcess]]:
        """Return the processes in the order in which they stop."""
        return self._routers, self._workers

    def _look_for_partitions(self) -> None:
        """Serve partitions that were added to the input, if that is wanted."""
        served = len(self._workers)
        topics = self._added.look(self.stream, self.statuses(), served)
        if topics is not None:
            self.warnings = [problem.message for problem in topics.problems]
            if not any(problem.fatal for problem in topics.problems):
                self._add_workers(topics.served)
