"""Records what happened from outside: topics, committed offsets, events, and what the workers said.

It looks at the logs of the simulated cluster after each call, so it sees each record when it becomes visible, and knows
the session that wrote it. Nothing here comes from the worker but its status, which is what the judge compares.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from dedupe_kafka.offset_metadata import decode_metadata, split_token
from tests.simulation.clock import SimClock
from tests.simulation.kafka.cluster import SimKafka
from tests.simulation.kafka.groups import Committed
from tests.simulation.kafka.log import Batch, PartitionLog
from tests.simulation.lost_tails import Numbers
from tests.simulation.process import WorkerProcess
from tests.simulation.schedule.settings import (
    CONFLICTS,
    DUPLICATES,
    GROUP,
    INPUT,
    LATE,
    OUTPUT,
    REPARTITION,
    ROUTER_GROUP,
    Settings,
)
from tests.support.checker.history import as_record
from tests.support.checker.outside import EventKind, OutsideEvent, StatusSnapshot, TopicRole
from tests.support.checker.record import Record
from tests.support.checker.topic_history import Incarnation, Progress, Written

_ROLES: Final = {
    INPUT: TopicRole.INPUT,
    REPARTITION: TopicRole.INPUT,
    OUTPUT: TopicRole.OUTPUT,
    DUPLICATES: TopicRole.DUPLICATES,
    CONFLICTS: TopicRole.CONFLICTS,
    LATE: TopicRole.LATE,
    f"{OUTPUT}-owners": TopicRole.OWNERS,
}
FOREIGN: Final = "foreign"


@dataclass(slots=True)
class _SeenLog:
    """How far a log was looked at. `waiting` are batches that were not taken yet, with their writers."""

    log: PartitionLog
    end: int = 0
    waiting: list[tuple[Batch, str]] = field(default_factory=list)
    records: list[Written] = field(default_factory=list)
    numbers: Numbers = field(default_factory=Numbers)


@dataclass(slots=True)
class _SeenTopic:
    name: str
    topic_id: str
    created_ms: int
    logs: list[_SeenLog]
    deleted_ms: int | None = None

    @property
    def role(self) -> TopicRole:
        return role_of(self.name)

    @property
    def is_producers(self) -> bool:
        """Return whether the stream's producers write it."""
        return self.role is TopicRole.INPUT and self.name != REPARTITION


class Recorder:
    """The history of one simulated stream so far."""

    def __init__(self, kafka: SimKafka, clock: SimClock, settings: Settings) -> None:
        self._kafka = kafka
        self._clock = clock
        self._settings = settings
        self._topics: list[_SeenTopic] = []
        self._now: dict[str, _SeenTopic] = {}
        self._committed: dict[tuple[str, str, int], int] = {}
        self._seen_changes = -1
        self.progress: list[Progress] = []
        self.routed: list[tuple[int, str, int, int]] = []
        """The offsets that routers have committed: time, topic, partition and offset."""
        self.inputs: tuple[str, ...] = tuple(settings.input_topics)
        """The inputs that the manifest names now."""
        self.starts: dict[str, int] = {}
        """When each router's process began."""
        self.events: list[OutsideEvent] = []
        self.statuses: list[StatusSnapshot] = []

    @property
    def now_ms(self) -> int:
        """Return the time of this history: it never steps."""
        return int(self._clock.monotonic() * 1000)

    # -- topics ----------------------------------------------------------------------------------

    def created(self, name: str) -> None:
        """Note a topic that was just created, or created again."""
        if before := self._now.get(name):
            before.deleted_ms = self.now_ms
        topic = self._kafka.topics.get(name)
        number = sum(each.name == name for each in self._topics)
        seen = _SeenTopic(name, f"{name}-{number}", self.now_ms, [])
        self._topics.append(seen)
        self._now[name] = seen
        for log in topic.logs:
            seen.logs.append(_SeenLog(log))

    def truncated(self, name: str, partition: int, end: int) -> None:
        """Note what an input is about to lose from an offset on."""
        seen = self._now[name].logs[partition]
        kept = [each for each in seen.records if each.record.offset < end]
        loss = seen.numbers.lose(end, end=seen.end, epoch=seen.log.epoch + 1, time_ms=self.now_ms)
        loss.records = seen.records[len(kept) :]
        seen.waiting = [each for each in seen.waiting if each[0].base < end]
        seen.records, seen.end = kept, end

    def look(self, writer: str) -> None:
        """See what is new in the topics; `writer` has made the call that has just ended."""
        changes = self._kafka.groups.changes.count
        if changes == self._seen_changes:
            return
        self._seen_changes = changes
        for name, topic in self._now.items():
            logs = self._kafka.topics.get(name).logs
            if len(logs) > len(topic.logs):
                topic.logs += [_SeenLog(log) for log in logs[len(topic.logs) :]]
            for seen in topic.logs:
                if seen.log.end != seen.end or seen.waiting:
                    self._look_at(seen, writer, in_order=topic.is_producers)
        self._look_at_offsets()

    def _look_at(self, seen: _SeenLog, writer: str, *, in_order: bool) -> None:
        """Take the new records of a log: once their transaction has ended, or `in_order`, once they can be read."""
        for batch in _newer(seen.log, seen.end):
            if not batch.control:
                seen.waiting.append((batch, writer))
        seen.end = seen.log.end
        opened = {id(batch) for batches in seen.log._open.values() for batch in batches}  # noqa: SLF001 (the cluster has no reader of that)
        stable = seen.log.last_stable_offset

        def waits(batch: Batch) -> bool:
            return batch.base >= stable if in_order else id(batch) in opened

        ended = [each for each in seen.waiting if not waits(each[0])]
        seen.waiting = [each for each in seen.waiting if waits(each[0])]
        for batch, wrote in ended:
            if batch.aborted:
                continue
            transaction = None if wrote.startswith(FOREIGN) else batch.transaction
            messages = seen.log._messages(batch)  # noqa: SLF001
            seen.records += [
                Written(
                    record=as_record(message),
                    time_ms=self.now_ms,
                    writer=wrote,
                    transaction=transaction,
                    epoch=batch.epoch,
                )
                for message in messages
            ]

    def _look_at_offsets(self) -> None:
        for topic in self._settings.worker_inputs:
            for partition in range(self._settings.seats):
                if (found := self._new_offset(GROUP, topic, partition)) is not None:
                    self._add_progress(topic, partition, found)
        for topic in self._settings.input_topics:
            for partition in range(len(self._kafka.topics.get(topic).logs)):
                if (found := self._new_offset(ROUTER_GROUP, topic, partition)) is not None:
                    self.routed.append((self.now_ms, topic, partition, found.offset))

    def _add_progress(self, topic: str, partition: int, found: Committed) -> None:
        """Note what a worker has read, by the numbers of the records."""
        read = self._topic_of(topic, partition, found.offset)
        log = read.logs[partition]
        read_end = decode_metadata(split_token(found.metadata)[0]).read_end
        offset = log.numbers.read(
            found.offset,
            found.offset if read_end is None else read_end,
            epoch=found.epoch,
            now=log.log.epoch,
        )
        if offset is None:
            return
        self.progress.append(
            Progress(
                time_ms=self.now_ms,
                partition=partition,
                topic_id=read.topic_id,
                offset=offset,
                transaction=self._kafka.groups.transactions[GROUP, topic, partition],
            )
        )

    def _new_offset(self, group: str, topic: str, partition: int) -> Committed | None:
        """Return an offset of a group that was committed since the last look; None if there is none."""
        found, key = (
            self._kafka.groups.committed(group, topic, partition),
            (group, topic, partition),
        )
        offset = found.offset if found else -1
        if offset == self._committed.get(key, -1):
            return None
        self._committed[key] = offset
        return found

    def _topic_of(self, topic: str, partition: int, offset: int) -> _SeenTopic:
        """Return the input's incarnation that was read up to an offset: the newest of which so much was fetched."""
        inputs = [each for each in self._topics if each.name == topic]
        logs = [each.logs[partition].log for each in inputs]
        read = [
            each
            for each, log in zip(inputs, logs, strict=True)
            if offset <= max(log.low, log.read_up_to)
        ]
        return (read or inputs)[-1]

    def incarnations(self) -> list[Incarnation]:
        """Return all topics that ever were, in order of creation; their ids begin with their names.

        The offsets of records in logs that have lost their tails are numbers, see lost_tails.py.
        """
        return [
            Incarnation(
                role=each.role,
                topic_id=each.topic_id,
                created_ms=each.created_ms,
                deleted_ms=each.deleted_ms,
                records=[
                    written for log in each.logs for written in log.numbers.numbered(log.records)
                ],
            )
            for each in self._topics
        ]

    def records(self, name: str) -> list[Record]:
        """Return all records that a topic ever had, in order within a partition."""
        return [each.record for each in self.written(name)]

    def lost(self, name: str) -> list[Written]:
        """Return the records that a topic has lost."""
        topics = [each for each in self._topics if each.name == name]
        return [
            each
            for topic in topics
            for log in topic.logs
            for loss in log.numbers.losses
            for each in loss.records
        ]

    def number(self, name: str, partition: int, offset: int) -> int:
        """Return the number of an offset of a log as it is now."""
        log = self._now[name].logs[partition]
        return log.numbers.number(offset, log.log.epoch)

    def written(self, name: str) -> list[Written]:
        """Return them with the times at which they became visible."""
        return [
            written
            for topic in self._topics
            if topic.name == name
            for log in topic.logs
            for written in log.records
        ]

    # -- events and statuses ---------------------------------------------------------------------

    def event(self, kind: EventKind, partition: int | None = None, **details: Any) -> None:  # noqa: ANN401 (fields of OutsideEvent)
        """Note an outside event."""
        self.events.append(
            OutsideEvent(time_ms=self.now_ms, kind=kind, partition=partition, **details)
        )

    def topic_id(self, name: str) -> str:
        """Return the present incarnation's name."""
        return self._now[name].topic_id

    def status(self, process: WorkerProcess, *, generations: int | None = None) -> None:
        """Note what a worker says of itself now; with another number of `generations`, if that is given."""
        state = process.factory.worker_state
        said = state.status()
        self.statuses.append(
            StatusSnapshot(
                time_ms=self.now_ms,
                partition=process.partition,
                process=process.name,
                phase=said.phase.value,
                ready=said.ready,
                reason=said.reason,
                degraded={each.reason: each.count for each in said.degraded},
                errors=dict(state.errors),
                counts=said.counts.model_dump(),
                expired_offsets=state.tally.expired_offsets,
                catch_up=said.reconcile.reason if said.reconcile else None,
                truncated=said.window.truncated,
                healthy=said.window.healthy,
                window_seconds=said.window.seconds,
                generations=said.window.generations if generations is None else generations,
            )
        )


def role_of(topic: str) -> TopicRole:
    """Return what a topic is to the workers; an input of routers is an input."""
    return _ROLES.get(topic, TopicRole.INPUT)


def _newer(log: PartitionLog, offset: int) -> Iterator[Batch]:
    first = len(log.batches)
    while first and log.batches[first - 1].base >= offset:
        first -= 1
    yield from log.batches[first:]
