"""Sending, deduplicating, and the kill in the middle."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from dedupe_local.run.fleet import Fleet
from dedupe_local.state_dir import StateDir
from examples.flights.data import Message
from examples.flights.outcome import Deduplicated, Recovery, Sent, Timeline
from examples.flights.producer import FlakyProducer, Kind, Send
from examples.flights.recovery import kill_and_follow
from examples.flights.screen import Screen, Step
from examples.flights.timeline import Watch

_STALL_SECONDS = 120.0
_TICK_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Deduplication:
    """What was sent and what became of it."""

    sent: Sent
    deduplicated: Deduplicated
    recovery: Recovery
    timeline: Timeline


class Deduplicator:
    """A fleet that is given work, and loses a worker at it."""

    def __init__(self, fleet: Fleet, state: StateDir, helper: Executor, screen: Screen) -> None:
        self._fleet = fleet
        self._state = state
        self._helper = helper
        self._screen = screen

    def run(self, flights: Sequence[Message], sends: Sequence[Send]) -> Deduplication:
        """Send everything, kill a worker half way, and wait until all is through."""
        spec = self._fleet.stream.spec
        producer = FlakyProducer(spec.kafka.bootstrap_servers, spec.input.topic)
        half = len(sends) // 2
        with (
            self._screen.step("Deduplicate", total=len(sends)) as through,
            Watch(self._fleet, lambda: producer.sent, self._helper) as watch,
        ):
            with self._screen.step("Send, with repeats", total=len(sends)) as sending:

                def tell() -> None:
                    sending.reach(producer.sent)
                    self._show(through)

                producer.send(flights, sends[:half], tell)
                sent_seconds = sending.seconds
                victim = self._at_work(half // 2, through)
                recovering = self._helper.submit(self._kill, victim, watch.began)
                resumed = sending.seconds
                producer.send(flights, sends[half:], tell)
                sent_seconds += sending.seconds - resumed
                sending.show(f"{len(sends):,} at {len(sends) / sent_seconds:,.0f}/s")
            self._drain(through)
            through.reach(len(sends))
            seconds = through.seconds
            recovery = recovering.result()
        return Deduplication(
            sent=_counted(sends, sent_seconds),
            deduplicated=Deduplicated(records=len(sends), seconds=seconds),
            recovery=recovery,
            timeline=watch.timeline,
        )

    def _drain(self, through: Step) -> None:
        drain = self._fleet.drain(_STALL_SECONDS)
        while not self._fleet.advance(drain):
            self._show(through)
            self._fleet.wait(_TICK_SECONDS)

    def _at_work(self, records: int, through: Step) -> int:
        """Wait until so many records are read; returns the partition that has read the most."""
        while self._read() < records:
            self._show(through)
            self._fleet.wait(_TICK_SECONDS)
        return max(self._fleet.views(), key=lambda view: view.consumed).partition

    def _kill(self, partition: int, began: float) -> Recovery:
        with self._screen.step(f"Kill worker {partition} with SIGKILL") as step:
            recovery = kill_and_follow(self._fleet, self._state, partition, began)
            step.show(f"back after {recovery.output_seconds:.1f} s")
            return recovery

    def _show(self, through: Step) -> None:
        through.reach(self._read())

    def _read(self) -> int:
        return sum(view.consumed for view in self._fleet.views())


def _counted(sends: Sequence[Send], seconds: float) -> Sent:
    kinds = Counter(send.kind for send in sends)
    return Sent(
        first=kinds[Kind.FIRST],
        retries=kinds[Kind.RETRY],
        replays=kinds[Kind.REPLAY],
        seconds=seconds,
    )
