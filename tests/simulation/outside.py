"""What happens to a simulated stream from outside: its topics, its group, the wall clock."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.simulation.kafka.foreign import ForeignTransaction
from tests.simulation.kafka.log import Record
from tests.simulation.machines import Machines
from tests.simulation.process import SimProcess
from tests.simulation.recorder import FOREIGN, role_of
from tests.simulation.schedule.input import Item, record_of
from tests.simulation.schedule.settings import OUTPUT
from tests.simulation.schedule.steps import Schedule
from tests.support.checker.outside import EventKind

_PERSON_SECONDS: Final = 4.0
_ENTRY: Final = re.compile(r"\{topic: (\S+), partition: (\d+), offset: (\d+), epoch: (\d+)\}")
_OFFSETS_KEPT_SECONDS: Final = 7 * 86400.0
_FOREIGN_VERSION: Final = 9
_IDS_AHEAD: Final = 40
_NEVER_SENT: Final = 100_000


class Outside(Machines):
    """The actions of steps that are about no worker."""

    def __init__(self, schedule: Schedule, home: Path) -> None:
        super().__init__(schedule, home)
        self.records = 0
        self.next_ids: Counter[int] = Counter()
        """The first id of each partition that was not sent yet."""
        self._foreign = 0
        self._foreign_ids: set[int] = set()
        self._transactions = 0
        self._transaction: ForeignTransaction | None = None

    def step_clock(self, seconds: float) -> None:
        """Step the wall clock of all machines."""
        self.clock.step_wall(seconds)
        self.recorder.event(EventKind.CLOCK_STEPPED, step_ms=int(seconds * 1000))

    def recreate(self, topic: str) -> None:
        """Delete a topic, and create it again."""
        self.recorder.look(FOREIGN)
        self.kafka.recreate_topic(topic)
        self.recorder.created(topic)

    def delete_records(self, topic: str, partition: int, share: float) -> None:
        """Delete the oldest records of a partition, up to the last stable offset."""
        self.recorder.look(FOREIGN)
        log = self.kafka.log(topic, partition)
        before = log.low + int((log.last_stable_offset - log.low) * share)
        self.kafka.delete_records(topic, partition, before)
        self.recorder.event(
            EventKind.RETENTION,
            partition,
            topic=role_of(topic),
            topic_id=self.recorder.topic_id(topic),
            offset=self.recorder.number(topic, partition, before),
        )

    def lose_tail(self, topic: str, partition: int, share: float) -> None:
        """Let an input partition lose its newest records; a person accepts what its readers say of it."""
        logs = self.kafka.topics.get(topic).logs
        if partition >= len(logs):
            return
        self.recorder.look(FOREIGN)
        log = logs[partition]
        end = log.end - int((log.end - log.low) * share)
        self.recorder.truncated(topic, partition, end)
        self.kafka.truncate(topic, partition, end)
        if topic == self.settings.worker_input:
            self.recorder.event(
                EventKind.TAIL_LOST,
                partition,
                topic=role_of(topic),
                topic_id=self.recorder.topic_id(topic),
            )
        self.clock.after(_PERSON_SECONDS, self._accept_losses)

    def damage(self, topic: str, partition: int, share: float, seconds: float) -> None:
        """Damage the batch at a share of a partition's records, and repair it after a while."""
        logs = self.kafka.topics.get(topic).logs
        batches = (
            [] if partition >= len(logs) else [b for b in logs[partition].batches if b.records]
        )
        if not batches:
            return
        batch = batches[int(share * (len(batches) - 1))]
        batch.damaged = True
        self.recorder.event(EventKind.DAMAGED, topic=role_of(topic))  # all may read it

        def repair() -> None:
            batch.damaged = False

        self.clock.after(seconds, repair)

    def _accept_losses(self) -> None:
        """Add to the manifest what the readers of inputs name, and restart them."""
        readers = self._input_readers
        named = {
            (found[1], int(found[2]), int(found[3]), int(found[4]))
            for each in readers
            for found in _ENTRY.finditer(str(each.problem))
        }
        if new := tuple(sorted(named - set(self._accepted))):
            self._accepted += new
            for process in readers:
                process.stop.set()
        if not self._over:
            self.clock.after(_PERSON_SECONDS, self._accept_losses)

    @property
    def _input_readers(self) -> Sequence[SimProcess]:
        """Return the processes that read the inputs."""
        return self._processes

    def leader_away(self, topic: str | None, partition: int, seconds: float) -> None:
        """Let a partition, or without a topic the coordinators, have no leader for a while."""
        if topic is None:
            self.kafka.coordinator_away(seconds)
        else:
            self.kafka.leader_away(topic, partition, seconds)
        self.recorder.event(EventKind.BROKER_AWAY, None if topic is None else partition)

    def stop_fetching(self, seat: str, topic: str, partition: int) -> None:
        """Let the clients of a place's processes fetch nothing more of a partition."""
        for process in self._processes:
            if process.seat == seat:
                self.kafka.stop_fetching(process.name, topic, partition)

    def expire_offsets(self, group: str) -> None:
        """Stop all workers for longer than Kafka keeps the offsets of a group at rest."""

        def expire() -> None:
            self.kafka.expire_offsets(group)
            self.recorder.event(EventKind.OFFSETS_LOST)

        for seat in self._seats:
            self.stop(seat.partition)
        self._rest_until = self.clock.monotonic() + _OFFSETS_KEPT_SECONDS + 60.0
        self.clock.after(_OFFSETS_KEPT_SECONDS, expire)

    def send(self, topic: str, partition: int, records: list[Record]) -> None:
        """Append records of the stream's producers to an input."""
        self.records += len(records)
        if self._transaction is None:
            self.kafka.write(topic, partition, records)
        else:
            self._transaction.write(topic, partition, records)
        self.recorder.look(FOREIGN)

    def in_transaction(self, send: Callable[[], None], seconds: float, *, commit: bool) -> None:
        """Send records in a transaction, and end it later."""
        self._transactions += 1
        transaction = self.kafka.begin_foreign(f"{FOREIGN}-input-{self._transactions}", 900.0)
        self._transaction = transaction
        send()
        self._transaction = None

        def end() -> None:
            (transaction.commit if commit else transaction.abort)()
            self.recorder.look(FOREIGN)

        self.clock.after(seconds, end)

    def foreign_write(
        self,
        partition: int,
        records: int,
        *,
        transactional: bool,
        open_seconds: float,
        commit: bool,
    ) -> None:
        """Write to the output as another system: ids that the input will have later.

        Those of no input record in a transaction that stays open, because the judge orders records by when they became
        visible, and without transactions, where a worker takes what was written after its last commit for its own.
        """
        self._foreign += 1
        now_ms, id_from = self.clock.time_ms(), self.settings.id_from
        known = self.settings.exactly_once and not open_seconds
        first = self.next_ids[partition] if known else _NEVER_SENT
        ids = [each for each in range(first, first + _IDS_AHEAD) if each not in self._foreign_ids]
        chosen = self.random.sample(ids, min(records, len(ids)))
        self._foreign_ids.update(chosen)
        written = [
            record_of(Item(each, version=_FOREIGN_VERSION), now_ms, partition, id_from)
            for each in chosen
        ]
        if not transactional:
            self.kafka.write(OUTPUT, partition, written)
            return
        transaction = self.kafka.begin_foreign(f"foreign-{self._foreign}", 900.0)
        transaction.write(OUTPUT, partition, written)

        def end() -> None:
            (transaction.commit if commit else transaction.abort)()
            self.recorder.look(FOREIGN)

        self.clock.after(open_seconds, end) if open_seconds else end()
