"""A builder of hand-made histories of whole streams, for the tests of their judge.

Each call moves the time on by a second, unless it names one. Every commit is a transaction with a snapshot of the
worker's status after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.support.checker.checker import Verdict
from tests.support.checker.id_sources import key_id
from tests.support.checker.outside import EventKind, OutsideEvent, StatusSnapshot, TopicRole
from tests.support.checker.record import Headers, Record
from tests.support.checker.streams import judge_stream
from tests.support.checker.topic_history import (
    Incarnation,
    Progress,
    Rules,
    StreamHistory,
    Written,
)
from tests.unit.support.histories import record

FOREVER = 10**12


@dataclass(slots=True)
class Topic:
    """An incarnation of a topic that is being written."""

    role: TopicRole
    topic_id: str
    created_ms: int
    deleted_ms: int | None = None
    records: list[Written] = field(default_factory=list)

    def end(self, partition: int) -> int:
        return sum(each.record.partition == partition for each in self.records)


@dataclass(slots=True)
class Told:
    """A history that is being told; `verdict` judges what was told so far."""

    rules: Rules = field(default_factory=Rules)
    now_ms: int = 0
    topics: list[Topic] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    events: list[OutsideEvent] = field(default_factory=list)
    statuses: list[StatusSnapshot] = field(default_factory=list)
    routers: bool = False
    cuts: dict[int, int] = field(default_factory=dict)
    session: str = ""
    transactions: int = 0

    def __post_init__(self) -> None:
        for role in (TopicRole.INPUT, TopicRole.OUTPUT):
            self.create(role)
        self.start("w1")

    # -- what happens --------------------------------------------------------------------------------

    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    def create(self, role: TopicRole) -> None:
        """Create a topic, again if there is one."""
        self.wait(1000)
        for topic in self.topics:
            if topic.role is role and topic.deleted_ms is None:
                topic.deleted_ms = self.now_ms
        number = sum(topic.role is role for topic in self.topics)
        self.topics.append(Topic(role, f"{role.value}-{number}", self.now_ms))

    def start(self, process: str = "w1", partition: int = 0) -> None:
        """Start a session."""
        self.session = f"{process}.{len(self.events)}"
        self.happen(
            EventKind.SESSION_STARTED, process=process, session=self.session, partition=partition
        )

    def happen(self, kind: EventKind, **fields: object) -> None:
        self.wait(1000)
        fields = {"partition": 0, **fields}
        self.events.append(OutsideEvent(time_ms=self.now_ms, kind=kind, **fields))  # type: ignore[arg-type] # by name

    def retain(self, role: TopicRole, offset: int) -> None:
        """Delete a topic's records before an offset."""
        topic = self.topic(role)
        self.happen(EventKind.RETENTION, topic=role, topic_id=topic.topic_id, offset=offset)

    def send(self, *keys: bytes | None, partition: int = 0, **fields: object) -> list[Record]:
        """Write input records with distinct values."""
        self.wait(1000)
        topic = self.topic(TopicRole.INPUT)
        sent = []
        for key in keys:
            offset = topic.end(partition)
            value = fields.get("value", b"%s-%d" % (topic.topic_id.encode(), offset))
            each = record(
                offset,
                key,
                value,  # type: ignore[arg-type] # by name
                partition=partition,
                timestamp_ms=int(str(fields.get("timestamp_ms", 1 + self.now_ms))),
            )
            topic.records.append(Written(record=each, time_ms=self.now_ms))
            sent.append(each)
        return sent

    def commit(
        self,
        passed: Sequence[Record],
        offset: int | None = None,
        *,
        input_topic: int = -1,
        routed: Sequence[tuple[TopicRole, Record]] = (),
        partition: int = 0,
        **status: object,
    ) -> None:
        """Write output records and routed ones, and commit the input offset."""
        self.wait(1000)
        self.transactions += 1
        topic = [each for each in self.topics if each.role is TopicRole.INPUT][input_topic]
        self.progress.append(
            Progress(
                time_ms=self.now_ms,
                partition=partition,
                topic_id=topic.topic_id,
                offset=topic.end(partition) if offset is None else offset,
                transaction=self.transactions,
            )
        )
        for each in passed:
            self.write(TopicRole.OUTPUT, each)
        for role, each in routed:
            self.write(role, each)
        self.say(partition=partition, **status)

    def write(self, role: TopicRole, each: Record, writer: str | None = None) -> None:
        topic = self.topic(role)
        copy = replace(each, offset=topic.end(each.partition))
        transaction = self.transactions if writer is None else None
        topic.records.append(
            Written(
                record=copy,
                time_ms=self.now_ms,
                writer=writer or self.session,
                transaction=transaction,
            )
        )

    def say(self, **fields: object) -> None:
        """Take a snapshot of the worker's status."""
        self.wait(1)
        known = {
            "partition": 0,
            "process": self.session.partition(".")[0],
            "phase": "Running",
            "ready": True,
            "catch_up": "Tail",
            **fields,
        }
        self.statuses.append(StatusSnapshot(time_ms=self.now_ms, **known))  # type: ignore[arg-type] # by name

    # -- the end -------------------------------------------------------------------------------------

    def topic(self, role: TopicRole) -> Topic:
        found = [each for each in self.topics if each.role is role]
        if not found:
            self.create(role)
            return self.topic(role)
        return found[-1]

    def history(self) -> StreamHistory:
        topics = [
            Incarnation(
                role=each.role,
                topic_id=each.topic_id,
                created_ms=each.created_ms,
                deleted_ms=each.deleted_ms,
                records=each.records,
            )
            for each in self.topics
        ]
        return StreamHistory(
            rules=self.rules,
            topics=topics,
            progress=self.progress,
            events=self.events,
            statuses=self.statuses,
            routers=self.routers,
            cuts=self.cuts,
        )

    def verdict(self) -> Verdict:
        return judge_stream(self.history(), key_id)

    def kinds(self) -> set[str]:
        return set(self.verdict().defects)


def headed(each: Record, **added: object) -> Record:
    """Return a record as it is in a side topic; `original=` becomes `dedupe-original`."""
    headers: Headers = tuple(
        (f"dedupe-{name.replace('_', '-')}", str(value).encode()) for name, value in added.items()
    )
    position = ("dedupe-position", f"{each.partition}:{each.offset}".encode())
    return replace(each, headers=(*each.headers, position, *headers))
