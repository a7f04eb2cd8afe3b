"""The controller of a simulated stream's growth: the real one, called as `dedupe run` and the operator call it.

It has the topics made larger first, and then does step after step. Two of them may run at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from dedupe_crds.status.exit_code import ExitCode
from dedupe_growth.controller import GrowthController
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from tests.simulation.clock import SimClock
from tests.simulation.kafka.cluster import SimKafka
from tests.simulation.process import CallHook, SimProcess
from tests.simulation.schedule.settings import SERVERS, Settings, stream_of

_GROWING_SECONDS: Final = 0.5
_RESTING_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Orders:
    """The interface between a controller and the world around it.

    `wanted` is the manifest's number of partitions, `unlearnt` what the workers say that they have left to learn, and
    `serve` starts the workers of so many partitions.
    """

    wanted: Callable[[], int]
    unlearnt: Callable[[], Mapping[int, int]]
    serve: Callable[[int], None]


class ControllerProcess(SimProcess):
    """A controller. It has no volume."""

    def __init__(
        self,
        name: str,
        seat: str,
        settings: Settings,
        orders: Orders,
        inputs: tuple[str, ...],
        *,
        kafka: SimKafka,
        clock: SimClock,
        on_call: CallHook,
    ) -> None:
        super().__init__(name, seat, clock, on_call)
        self._settings = settings
        self._orders = orders
        self._inputs = inputs
        self._clock = clock
        self._clients = kafka.clients(name, self._hook)
        self._problem: StreamError | None = None
        self._wanted = 0

    @property
    def problem(self) -> StreamError | None:
        """Return why its last step failed."""
        return self._problem

    @property
    def runs_well(self) -> bool:
        """Return whether its last step did not fail."""
        return self._problem is None

    def _run(self) -> None:
        cluster = Cluster(SERVERS, {}, clients=self._clients, clock=self._clock)
        controller = GrowthController(
            stream_of(self._settings, inputs=self._inputs),
            {},
            cluster,
            clock=self._clock,
            clients=self._clients,
        )
        pause = 0.0
        while not self._clock.wait(self.stop, pause):
            try:
                pause = 0.0 if self._step(cluster, controller) else self._rest(controller)
                self._problem = None
            except StreamError as error:
                self._problem, pause = error, _AGAIN_SECONDS
        self.exit_code = ExitCode.OK

    def _step(self, cluster: Cluster, controller: GrowthController) -> bool:
        wanted = self._orders.wanted()
        if wanted != self._wanted:
            settings = replace(self._settings, partitions=wanted)
            found = cluster.ensure_output(stream_of(settings, inputs=self._inputs))
            if any(problem.fatal for problem in found.problems):
                return False
            self._wanted = wanted
        done = controller.step(wanted, self._orders.unlearnt())
        self._orders.serve(controller.epochs.workers)
        return done

    def _rest(self, controller: GrowthController) -> float:
        grows = controller.epochs.grows or self._wanted > controller.epochs.workers
        return _GROWING_SECONDS if grows else _RESTING_SECONDS
