"""Sends the flights, deduplicates them, and kills a worker in between."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from dedupe_local.run.fleet import Fleet
from dedupe_local.state_dir import StateDir
from examples.flights.data import Message
from examples.flights.outcome import Deduplicated, Recovery, Sent, Timeline
from examples.flights.producer import (
    FlakyProducer,
    Kind,
    Send,
    repeats_in_another_partition,
)
from examples.flights.recovery import Kill, follow, kill
from examples.flights.screen import Screen, Step
from examples.flights.timeline import Sampler

_STALL_SECONDS = 120.0
_TICK_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Deduplication:
    """The measurements of sending and deduplicating."""

    sent: Sent
    deduplicated: Deduplicated
    recovery: Recovery
    timeline: Timeline


class Deduplicator:
    """Runs a fleet under load, and kills one of its workers."""

    def __init__(self, fleet: Fleet, state: StateDir, helper: Executor, screen: Screen) -> None:
        self._fleet = fleet
        self._state = state
        self._helper = helper
        self._screen = screen

    def run(self, flights: Sequence[Message], sends: Sequence[Send]) -> Deduplication:
        """Send everything, kill a worker half way, and wait for all records."""
        spec = self._fleet.stream.spec
        producer = FlakyProducer(spec.kafka.bootstrap_servers, spec.input.single)
        half = len(sends) // 2
        with (
            self._screen.step("Deduplicate", total=len(sends)) as processed,
            Sampler(self._fleet, lambda: producer.sent, self._helper) as sampler,
        ):
            with self._screen.step("Send, with duplicates", total=len(sends)) as sending:

                def report() -> None:
                    sending.reach(producer.sent)
                    self._show(processed)

                producer.send(flights, sends[:half], report)
                sent_seconds = sending.seconds
                victim = self._busiest_after(half // 2, processed)
                # The rest is sent after the kill: it is what the successor produces.
                killed = self._kill(victim)
                recovering = self._helper.submit(self._follow, killed, sampler.began)
                resumed = sending.seconds
                producer.send(flights, sends[half:], report)
                sent_seconds += sending.seconds - resumed
                sending.show(f"{len(sends):,} at {len(sends) / sent_seconds:,.0f}/s")
            self._drain(processed)
            processed.reach(len(sends))
            seconds = processed.seconds
            recovery = recovering.result()
        return Deduplication(
            sent=_counted(sends, sent_seconds),
            deduplicated=Deduplicated(records=len(sends), seconds=seconds),
            recovery=recovery,
            timeline=sampler.timeline,
        )

    def _drain(self, processed: Step) -> None:
        drain = self._fleet.drain(_STALL_SECONDS)
        while not self._fleet.advance(drain):
            self._show(processed)
            self._fleet.wait(_TICK_SECONDS)

    def _busiest_after(self, records: int, processed: Step) -> int:
        """Wait for so many consumed records; return the partition that consumed most."""
        while self._consumed() < records:
            self._show(processed)
            self._fleet.wait(_TICK_SECONDS)
        return max(self._fleet.views(), key=lambda view: view.consumed).partition

    def _kill(self, partition: int) -> Kill:
        with self._screen.step(f"Kill worker {partition} with SIGKILL"):
            return kill(self._fleet, self._state, partition)

    def _follow(self, killed: Kill, began: float) -> Recovery:
        with self._screen.step(f"Recover partition {killed.worker.partition}") as step:
            recovery = follow(self._fleet, self._state, killed, began)
            step.show(f"back after {recovery.output_seconds:.1f} s")
            return recovery

    def _show(self, processed: Step) -> None:
        processed.reach(self._consumed())

    def _consumed(self) -> int:
        return sum(view.consumed for view in self._fleet.views())


def _counted(sends: Sequence[Send], seconds: float) -> Sent:
    kinds = Counter(send.kind for send in sends)
    return Sent(
        first=kinds[Kind.FIRST],
        retries=kinds[Kind.RETRY],
        replays=kinds[Kind.REPLAY],
        repeats_in_another_partition=repeats_in_another_partition(sends),
        seconds=seconds,
    )
