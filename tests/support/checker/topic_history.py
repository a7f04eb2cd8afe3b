"""The history of a stream's topics, with all incarnations, for the judge of whole streams.

Times are as in outside.py. A test on a real broker, where a topic has one incarnation and a record no known time or
transaction, makes it with `from_records`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.support.checker.outside import OutsideEvent, StatusSnapshot, TopicRole, WindowBounds
from tests.support.checker.record import Record

WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A record of a topic, as readers of committed records can see it at some time."""

    record: Record
    time_ms: int = 0
    """When it became visible: appended, or its transaction committed."""
    writer: str = WORKER
    """The session that wrote it, as in its event; of a foreign writer, a name that begins with `foreign`.

    On the input it means nothing.
    """
    transaction: int | None = None
    """The number of the worker's transaction that wrote it, see `Progress`; None if not known, or there is none."""
    origin: str = ""
    """Of an input record that came through routers, or of a log that has lost its tail: where it was first written.

    As the headers of side topics say.
    """
    epoch: int = 0
    """The leader epoch in which it was appended."""
    lost_ms: int | None = None
    """Of an input record that was read: when brokers lost it with all that came after it, if they did."""

    @property
    def is_foreign(self) -> bool:
        """Return whether another producer than the stream's workers wrote it."""
        return self.writer.startswith("foreign")


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """A topic from its creation to its deletion, with all records it ever had, also expired ones.

    Records are in order of offsets within a partition. Without aborted and open ones.
    """

    role: TopicRole
    topic_id: str
    created_ms: int = 0
    deleted_ms: int | None = None
    records: Sequence[Written] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A committed input offset of the group, in order of time.

    `topic_id` is the input's incarnation of which the worker read the records, if that is known, else the incarnation
    at the time of the commit. `transaction` is the one that committed it, unique in a history, and None without one.
    """

    time_ms: int
    partition: int
    topic_id: str
    offset: int
    transaction: int | None = None


class Delivery(StrEnum):
    """`spec.delivery`."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of the stream that decide what is right."""

    bounds: WindowBounds | None = None
    """None: an id is known for ever."""
    delivery: Delivery = Delivery.EXACTLY_ONCE
    observe: bool = False
    table_slots: int | None = None
    """Inverse Bloom: a repeat may pass, by a chance that follows from this number of slots."""
    routes_duplicates: bool = False
    routes_conflicts: bool = False
    routes_late: bool = False
    drained: bool = True
    """At its end the worker had processed all that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHistory:
    """Everything that the judge of a whole stream gets."""

    rules: Rules
    topics: Sequence[Incarnation]
    """In order of creation within a role."""
    progress: Sequence[Progress] = ()
    events: Sequence[OutsideEvent] = ()
    """In order of time."""
    statuses: Sequence[StatusSnapshot] = ()
    """In order of time."""
    routers: bool = False
    """The ids of all partitions are one set: routers bring the copies of an id together."""
    cuts: Mapping[int, int] = field(default_factory=dict)
    """The output offsets, by partition, before which a stream had no routers."""

    def of(self, role: TopicRole) -> list[Incarnation]:
        """Return the incarnations of a topic, in order."""
        return [topic for topic in self.topics if topic.role is role]


def from_records(rules: Rules, records: Mapping[TopicRole, Iterable[Record]]) -> StreamHistory:
    """Make the history of topics that were never deleted, as a test on a real broker reads them."""
    topics = [
        Incarnation(
            role=role, topic_id=role.value, records=[Written(record=each) for each in found]
        )
        for role, found in records.items()
    ]
    return StreamHistory(rules=rules, topics=topics)
