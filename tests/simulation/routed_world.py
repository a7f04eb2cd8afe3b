"""A world with routers: inputs, routers, the repartition topic, the workers that read it, and who lets it grow.

What the workers read is the repartition topic, so all that `World` does to them and to their input is of that.
Something like a kubelet starts a router or a controller again that has ended. Invariant: a world is drained once the
routers have routed all inputs of the manifest, the workers have read all of that, and no growth is under way.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from dedupe_growth.unlearnt import unlearnt
from dedupe_router.config import RouterConfig
from tests.simulation.controller import ControllerProcess, Orders
from tests.simulation.kafka.calls import Killed
from tests.simulation.machines import Seat
from tests.simulation.process import RouterProcess, SimProcess
from tests.simulation.schedule.settings import EPOCHS, ROUTER_GROUP, stream_of
from tests.simulation.schedule.steps import Schedule
from tests.simulation.world import Listener, World

_RESTART_SECONDS: Final = 1.0
_LATE_SECONDS: Final = (0.0, 0.0, 0.3, 5.0)

CONTROLLER: Final = "g0"


@dataclass(slots=True)
class _Place:
    """The place of a process without a volume: of its processes the newest one counts."""

    seat: str
    process: SimProcess | None = None
    starts: int = 0
    down_seconds: float | None = None


class RoutedWorld(World):
    """Everything that a schedule with routers happens to."""

    def __init__(self, schedule: Schedule, home: Path, listen: Listener | None = None) -> None:
        super().__init__(schedule, home, listen)
        self.wanted = self.settings.partitions
        """The number of partitions that the manifest asks for."""
        self.inputs = tuple(self.settings.input_topics)
        """The inputs that the manifest names."""
        self._inputs_of: dict[str, tuple[str, ...]] = {}
        """Those that each router has in its manifest."""
        self._served = 0
        random = Random(f"{schedule.seed} markers")
        if slowest := random.choice([0.0, 0.02, 0.5]):
            self.kafka.coordinator.marker_delay = lambda: random.uniform(0.0, slowest)
        self.kafka.fetch_seconds = self._fetch_seconds
        seats = [f"r{number}" for number in range(self.settings.routers)]
        self._places = {seat: _Place(seat) for seat in [*seats, CONTROLLER]}

    def _fetch_seconds(self, process: str, topic: str, offset: int) -> float:
        """Let some routers and workers learn late of what is new in the epoch log."""
        if topic != EPOCHS or not offset or process.startswith(CONTROLLER):
            return 0.0
        return Random(f"{self.schedule.seed} {process} log").choice(_LATE_SECONDS)

    # -- processes -------------------------------------------------------------------------------

    def _start_all(self) -> None:
        for place in self._places.values():
            self._start_at(place)

    def _start_at(self, place: _Place) -> None:
        if self._over:
            return
        place.starts += 1
        self.sessions += 1
        name = f"{place.seat}#{place.starts}"
        self.recorder.starts[name] = self.recorder.now_ms
        place.process = self._made(name, place.seat)
        self._processes.append(place.process)

    def _made(self, name: str, seat: str) -> SimProcess:
        if seat == CONTROLLER:
            return ControllerProcess(
                *(name, seat, self.settings),
                Orders(lambda: self.wanted, self._unlearnt, self._serve),
                self.inputs,
                kafka=self.kafka,
                clock=self.clock,
                on_call=self._on_call,
            )
        self._inputs_of[name] = self.inputs
        stream = stream_of(self.settings, inputs=self.inputs, accepted=self._accepted)
        assert stream.spec.repartition is not None
        config = RouterConfig(
            stream=stream,
            router=int(seat[1:]),
            repartition=stream.spec.repartition,
            properties={},
        )
        return RouterProcess(
            name,
            config,
            kafka=self.kafka,
            clock=self.clock,
            on_call=self._on_call,
            random=Random(f"{self.schedule.seed} {name}"),
        )

    def _writer_of(self, process: SimProcess) -> str:
        """Tell what a router writes after a failure from what it wrote before."""
        if isinstance(process, RouterProcess):
            state = process.state
            return f"{process.name}.{state.errors.total() + state.tally.aborted_transactions}"
        return super()._writer_of(process)

    def _serve(self, workers: int) -> None:
        """Start the workers of so many partitions, those of them that never ran."""
        for seat in self._seats[self._served : workers]:
            self._start(seat)
        self._served = max(self._served, workers)

    def _unlearnt(self) -> Mapping[int, int]:
        running = [seat.process for seat in self._seats]
        return unlearnt([each.factory.worker_state.status() if each else None for each in running])

    def _ended(self, process: SimProcess) -> None:
        super()._ended(process)
        for place in self._places.values():
            if place.process is process:
                place.process = None
                delay, place.down_seconds = place.down_seconds, None
                again = _RESTART_SECONDS if delay is None else delay
                self.clock.after(again, partial(self._start_again, place))

    def _start_again(self, place: _Place) -> None:
        if place.process is None:
            self._start_at(place)

    def _kill(self, process: SimProcess | None) -> None:
        """Kill a process, if it has not ended. Raises Killed in its own fiber."""
        if process is None or process not in self._processes:
            return
        process.kill()
        if process is self._running:
            raise Killed
        self._bury(process)

    @property
    def routers(self) -> list[RouterProcess]:
        """Return the routers that run."""
        return [each for each in self._processes if isinstance(each, RouterProcess)]

    # -- what steps do ---------------------------------------------------------------------------

    def is_calling(self, seat: str) -> bool:
        """Return whether the process of this place makes the present call."""
        return self._running is not None and self._running.seat == seat

    def kill_at(self, seat: str, down_seconds: float) -> None:
        """End a router or the controller at once, and start it again later."""
        self._places[seat].down_seconds = down_seconds
        self._kill(self._places[seat].process)

    def stop_at(self, seat: str, down_seconds: float) -> None:
        """Let it stop, and start it again later."""
        place = self._places[seat]
        if place.process:
            place.down_seconds = down_seconds
            place.process.stop.set()

    def freeze_at(self, seat: str, seconds: float) -> None:
        """Let it stand still from its present call on."""
        process = self._places[seat].process
        if process:
            process.frozen_until = self.clock.monotonic() + seconds

    def start_second_at(self, seat: str, seconds: float) -> None:
        """Start another process of its number; the first one is killed later."""
        place = self._places[seat]
        first = place.process
        if first is not None:
            self._start_at(place)
            self.clock.after(seconds, lambda: self._kill(first))

    def change_inputs(self, inputs: Sequence[str], pause: float) -> None:
        """Name other inputs in the manifest, and restart routers and controller, each after a pause.

        The one that starts meanwhile for another reason has the new manifest sooner.
        """
        self.inputs = self.recorder.inputs = tuple(inputs)
        for number, seat in enumerate(self._places):
            self.clock.after(number * pause, partial(self.stop_at, seat, 0.0))

    @property
    def _input_readers(self) -> Sequence[SimProcess]:
        found = [place.process for place in self._places.values()]
        return [each for each in found if isinstance(each, RouterProcess)]

    # -- the end ---------------------------------------------------------------------------------

    @property
    def _working(self) -> Sequence[Seat]:
        return self._seats[: self._served]

    def _is_drained(self) -> bool:
        now = self.clock.monotonic()
        if any(each.frozen_until > now for each in self._processes):
            return False
        names = [each.name for each in self._processes]
        if any(self._inputs_of.get(name, self.inputs) != self.inputs for name in names):
            return False  # it may go on routing an input that is out
        processes = [place.process for place in self._places.values()]
        if any(each is None or not each.runs_well for each in processes):
            return False
        logs = [(topic, log) for topic in self.inputs for log in self.kafka.topics.get(topic).logs]
        if any(
            self._has_lost(ROUTER_GROUP, topic, log.partition)
            or not self._is_read(ROUTER_GROUP, topic, log.partition)
            for topic, log in logs
        ):
            return False
        return self._has_grown() and super()._is_drained()

    def _has_grown(self) -> bool:
        """Return whether the epoch log says that the partitions that are wanted do all run."""
        values = [each.value() for each in self.kafka.visible(EPOCHS, 0)]
        entries = [json.loads(each) for each in values if each]
        sizes = {each["epoch"]: each.get("partitions") for each in entries if "partitions" in each}
        done = [each["epoch"] for each in entries if each["entry"] == "done"]
        return bool(done) and sizes[max(done)] == self.wanted == self._served
