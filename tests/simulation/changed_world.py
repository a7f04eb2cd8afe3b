"""A world whose stream gets routers in place: workers read the first input themselves, and then routers do.

After the change routers and the controller, which creates the topics, start, each at its time. The old workers end at
different times, too, and some of them live on as zombies, or start once more with the old manifest. Invariant: a world
is drained once the change, and a growth after it, is done.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from tests.simulation.kafka.calls import Call
from tests.simulation.kafka.log import Record
from tests.simulation.machines import Seat
from tests.simulation.process import SimProcess, WorkerProcess
from tests.simulation.recorder import FOREIGN
from tests.simulation.routed_world import RoutedWorld
from tests.simulation.schedule.settings import (
    EPOCHS,
    GROUP,
    REPARTITION,
    ROUTER_GROUP,
    input_topic,
    stream_of,
)
from tests.simulation.schedule.steps import Schedule
from tests.simulation.world import Listener

_STOPPED_SECONDS: Final = 6.0
"""Longer than a worker takes to stop."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a partition's worker without routers, so many seconds after the change.

    `how` is kill, power, stop, or zombie: then it stands still for `frozen` seconds while the next one runs. With
    `again` the next one has the old manifest once more, for so many seconds.
    """

    how: str = "kill"
    seconds: float = 0.0
    frozen: float = 0.0
    again: float = 0.0


class ChangedWorld(RoutedWorld):
    """Everything that happens to a stream which gets routers."""

    def __init__(self, schedule: Schedule, home: Path, listen: Listener | None = None) -> None:
        super().__init__(schedule, home, listen)
        self.changed = False
        self._unseen = [REPARTITION, EPOCHS]
        self._served = self.settings.direct
        self._old = set(range(self.settings.direct))
        """The partitions whose workers start with the old manifest."""
        self._again: dict[int, float] = {}
        """The seconds for which the next start of a partition's worker has the old manifest once more."""

    @property
    def handed_over(self) -> bool:
        """Return whether no worker reads the input itself any more."""
        if self.kafka.topics.find(EPOCHS) is None:
            return False
        values = [each.value() for each in self.kafka.visible(EPOCHS, 0)]
        return any(json.loads(each)["entry"] == "handed-over" for each in values if each)

    def _on_call(self, process: SimProcess, call: Call) -> None:
        for topic in [each for each in self._unseen if self.kafka.topics.find(each)]:
            self._unseen.remove(topic)
            self.recorder.created(topic)
        super()._on_call(process, call)

    def _writer_of(self, process: SimProcess) -> str:
        """Note each catch-up, too: a session that hands over has two."""
        writer = super()._writer_of(process)
        if isinstance(process, WorkerProcess):
            said = process.factory.worker_state.reconcile
            if said and said.reason != process.catch_up:
                process.catch_up = said.reason
                self.recorder.status(process)
        return writer

    def leader_away(self, topic: str | None, partition: int, seconds: float) -> None:
        """Let a partition have no leader for a while, if its topic exists."""
        if topic is None or self.kafka.topics.find(topic):
            super().leader_away(topic, partition, seconds)

    # -- processes -------------------------------------------------------------------------------

    def _start_all(self) -> None:
        for seat in self._seats[: self.settings.direct]:
            self._start(seat)

    def _manifest(self, partition: int) -> DedupeStream:
        old = partition in self._old or partition in self._again
        return stream_of(self.settings, direct=old)

    def _start(self, seat: Seat) -> None:
        super()._start(seat)
        seconds = self._again.pop(seat.partition, None)
        if seconds is not None:
            self.clock.after(seconds, partial(self._kill, seat.process))

    # -- what steps do ---------------------------------------------------------------------------

    def add_routers(
        self, ends: Sequence[End], starts: Sequence[float], *, offsets_expire: bool
    ) -> None:
        """Change the manifest; `starts` are the seconds until routers, and last the controller, start."""
        if self.changed:
            return
        self.changed = True
        if offsets_expire:
            self._rest_until = self.clock.monotonic() + _STOPPED_SECONDS + 1.0
            self.clock.after(_STOPPED_SECONDS, self._expire)
        for place, seconds in zip(self._places.values(), starts, strict=True):
            self.clock.after(seconds, partial(self._start_again, place))
        for seat, end in zip(self._seats, ends, strict=False):
            self.clock.after(end.seconds, partial(self._end, seat, end))

    def _expire(self) -> None:
        if all(seat.process is None for seat in self._seats):
            self.kafka.expire_offsets(GROUP)

    def _end(self, seat: Seat, end: End) -> None:
        """End a worker of the old manifest."""
        partition, process = seat.partition, seat.process
        self._old.discard(partition)
        if end.again:
            self._again[partition] = end.again
        if end.how == "stop":
            self.stop(partition)
        elif end.how == "zombie" and process is not None:
            process.frozen_until = self.clock.monotonic() + end.frozen
            self.start_second(partition, "copy")
        else:
            self.kill(partition, power=end.how == "power")

    def start_old(self, partition: int, volume: str, seconds: float) -> None:
        """Start a worker with the old manifest: on its `own` volume after a kill, or as a second one."""
        if partition in self._old or partition >= self.settings.direct or not self.changed:
            return
        self._again[partition] = seconds
        if volume == "own":
            self.kill(partition, power=False)
        else:
            self.start_second(partition, volume)

    def send_copies(
        self, topic: int, partition: int, records: Sequence[tuple[int, Record]]
    ) -> None:
        """Append records with their ids to any partition, or before the handing over each to the one of its id."""
        if topic or self.handed_over:
            self.send(input_topic(topic), partition, [record for _, record in records])
            return
        for number, record in records:
            self.send(input_topic(0), number % self.settings.direct, [record])

    def retain_read(self, partition: int) -> None:
        """Delete what is read of a partition of the first input, as its retention does."""
        topic = input_topic(0)
        at = [self.kafka.groups.committed(each, topic, partition) for each in (GROUP, ROUTER_GROUP)]
        read = max(each.offset if each else 0 for each in at)
        self.recorder.look(FOREIGN)
        self.kafka.delete_records(topic, partition, read)

    # -- the end ---------------------------------------------------------------------------------

    def _is_drained(self) -> bool:
        return len(self._unseen) == 0 and super()._is_drained()
