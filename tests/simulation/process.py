"""Simulated processes: the real supervisor and what it runs, in a fiber.

A kill takes the image of a worker's volume first, and then raises `Killed` from the call at which the process is. Its
`finally` blocks do run, because Python can't leave them out. But every further call of a client raises `Killed` too,
and what they write goes to the directory before the image, which is deleted. So a killed process has no further effect.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from random import Random
from threading import Event

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import Phase
from dedupe_router.config import RouterConfig
from dedupe_router.state import RouterState
from dedupe_router.supervisor import Supervisor as RouterSupervisor
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.store import closing as stores
from dedupe_worker.store.state_dir import StateDirectory
from dedupe_worker.supervisor import Supervisor
from tests.simulation.clock import SimClock
from tests.simulation.disk import Volume
from tests.simulation.fiber import Fiber
from tests.simulation.kafka.calls import Call, Killed
from tests.simulation.kafka.cluster import SimKafka

CallHook = Callable[["SimProcess", Call], None]


class SimProcess(ABC):
    """One process from its start to its end. It runs whenever it is resumed.

    `seat` names its place, whose next process follows it: p1 is the worker of partition 1, r0 is router 0.
    """

    def __init__(self, name: str, seat: str, clock: SimClock, on_call: CallHook) -> None:
        self.name = name
        self.seat = seat
        self.stop = Event()
        self.wake_at = clock.monotonic()
        self.frozen_until = 0.0
        self.exit_code: ExitCode | None = None
        self.killed = False
        self._on_call = on_call
        self._fiber = Fiber(name, self._run)

    @abstractmethod
    def _run(self) -> None:
        """Run the real supervisor, in the fiber, and keep its exit code."""

    @property
    @abstractmethod
    def problem(self) -> Exception | None:
        """Return the error that the process names."""

    @property
    @abstractmethod
    def runs_well(self) -> bool:
        """Return whether it does its work, as far as it says."""

    @property
    def ended(self) -> bool:
        """Return whether it has ended, by itself or killed."""
        return self._fiber.ended

    @property
    def runs_at(self) -> float:
        """Return the time from which it can be resumed."""
        return max(self.wake_at, self.frozen_until)

    def resume(self) -> None:
        """Run it until it waits, or ends. Raises what a bug of the simulation raised."""
        self._fiber.resume()
        if self.ended and self._fiber.error and not isinstance(self._fiber.error, Killed):
            raise self._fiber.error

    def wait_until(self, when: float) -> None:
        """Let others run until a time, in the process's own fiber. Raises Killed."""
        self.wake_at = when
        self._fiber.pause()
        if self.killed:
            raise Killed

    def kill(self) -> None:
        """End it: from now on it has no effect.

        Its own fiber must raise Killed then; any other caller must `finish` it.
        """
        self.killed = True

    def finish(self) -> None:
        """Run a killed process to its end."""
        if not self._fiber.started:
            self._fiber.ended = True
        while not self.ended:
            self._fiber.resume()

    def _hook(self, call: Call) -> None:
        if self.killed:
            raise Killed
        self._on_call(self, call)
        if self.killed:
            raise Killed


class WorkerProcess(SimProcess):
    """The worker of a partition, on its volume."""

    def __init__(
        self,
        name: str,
        config: WorkerConfig,
        volume: Volume,
        *,
        kafka: SimKafka,
        clock: SimClock,
        on_call: CallHook,
        random: Random,
    ) -> None:
        super().__init__(name, f"p{config.partition}", clock, on_call)
        self.partition = config.partition
        self.volume = volume
        self.commands = CommandQueue()
        self.running_session = 0
        """The number of the last session that was seen running."""
        self.committed = 0
        self.catch_up: str | None = None
        """The reason of the last catch-up that was noted."""
        self._leftover: Volume | None = None
        clients = kafka.clients(name, self._hook)
        config = replace(config, state=StateDirectory(volume.path))
        self.factory = ComponentFactory(config, clock, clients)
        self.window = self.factory.worker_state.window
        """The status of its window at its last call, and the number of transactions then in `committed`."""
        self._supervisor = Supervisor(self.factory, self.commands, self.stop, random)

    @property
    def problem(self) -> Exception | None:
        """Return the error that the worker names."""
        return self.factory.worker_state.problem

    @property
    def runs_well(self) -> bool:
        """Return whether it removes duplicates."""
        return self.factory.worker_state.phase is Phase.RUNNING

    def kill(self, image: Volume | None = None) -> None:
        """End it. `image` is its volume from then on: by default as it is now."""
        image = image or self.volume.after_kill()
        super().kill()
        self._leftover, self.volume = self.volume, image

    def bury(self) -> None:
        """Delete what an ended process has left."""
        if self._leftover:
            self._leftover.delete()
            self._leftover = None

    def _run(self) -> None:
        self.exit_code = self._supervisor.run()


class RouterProcess(SimProcess):
    """A router. It has no volume."""

    def __init__(
        self,
        name: str,
        config: RouterConfig,
        *,
        kafka: SimKafka,
        clock: SimClock,
        on_call: CallHook,
        random: Random,
    ) -> None:
        super().__init__(name, f"r{config.router}", clock, on_call)
        self.state = RouterState(config.stream, config.router, clock)
        self._supervisor = RouterSupervisor(
            *(config, self.state, clock, self.stop),
            clients=kafka.clients(name, self._hook),
            random=random,
        )

    @property
    def problem(self) -> Exception | None:
        """Return the error that the router names."""
        return self.state.problem

    @property
    def runs_well(self) -> bool:
        """Return whether it is ready to route."""
        return self.state.ready

    def _run(self) -> None:
        self.exit_code = self._supervisor.run()


def close_left_open() -> None:
    """Close the stores that a fenced session leaves to the end of its process."""
    for store in stores._left_open:  # noqa: SLF001 (it is the process that would end)
        store.close()
    stores._left_open.clear()  # noqa: SLF001
