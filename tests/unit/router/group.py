"""A consumer of a group, whose rebalances a test decides on."""

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from dedupe_crds.spec.flow import Flow
from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_growth.entries import Entry, Switch
from dedupe_growth.epochs import NO_EPOCH, Epochs, epochs_of
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offsets import NOTHING_READ, LastRead, Place
from dedupe_router.adoption import Adoption
from dedupe_router.lost_tail import LostTails
from dedupe_router.reader import InputReader
from dedupe_router.start import Start
from tests.unit.worker.still_clock import StillClock

Callback = Callable[[Any, list[TopicPartition]], None]


def record(
    topic: str = "raw",
    partition: int = 0,
    offset: int = 0,
    *,
    key: bytes | None = None,
    value: bytes | None = b"v",
    headers: list[tuple[str, bytes]] | None = None,
    leader_epoch: int = -1,
) -> Message:
    return Message(
        topic=topic,
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        headers=headers,  # type: ignore[arg-type] # a list, as a consumer's records have it
        timestamp=(1, 5),
        leader_epoch=leader_epoch,
    )


def end(topic: str, partition: int, offset: int) -> Message:
    """What the client reports at the end of a partition."""
    code = KafkaError._PARTITION_EOF  # noqa: SLF001 (a public name)
    return Message(topic=topic, partition=partition, offset=offset, error=KafkaError(code))


def places(partitions: Sequence[TopicPartition]) -> list[Place]:
    return [(each.topic, each.partition) for each in partitions]


class FakeGroup:
    """The consumer. What `arrives` is delivered by the next read; functions are called in between."""

    def __init__(self) -> None:
        self.arrives: list[Message | Callable[[], None]] = []
        self.member: str | None = "m-1"
        self.subscribed: list[str] = []
        self.assigned: dict[Place, int] = {}
        self.paused: set[Place] = set()
        self.sought: dict[Place, int] = {}
        self.sought_epochs: dict[Place, int | None] = {}
        self.seek_fails: KafkaException | None = None
        self.ends: dict[Place, int] = {}
        self.closed = False

    def subscribe(self, topics: list[str], **callbacks: Callback) -> None:
        self.subscribed, self._callbacks = topics, callbacks

    def unsubscribe(self) -> None:
        self.subscribed = []

    def give(self, *wanted: Place) -> None:
        """Assign partitions, as the group does in a read."""
        self._callbacks["on_assign"](self, [TopicPartition(*place) for place in wanted])

    def take(self, *wanted: Place, lost: bool = False) -> None:
        """Take partitions away."""
        name = "on_lost" if lost else "on_revoke"
        self._callbacks[name](self, [TopicPartition(*place) for place in wanted])

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned |= {(each.topic, each.partition): each.offset for each in partitions}

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        for place in places(partitions):
            del self.assigned[place]

    def seek(self, where: TopicPartition) -> None:
        if self.seek_fails:
            raise self.seek_fails
        self.sought[where.topic, where.partition] = where.offset
        self.sought_epochs[where.topic, where.partition] = where.leader_epoch

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused |= set(places(partitions))

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused -= set(places(partitions))

    def poll(self, _seconds: float) -> Message | None:
        found = self.consume(1, 0)
        return found[0] if found else None

    def consume(self, most: int, _seconds: float) -> list[Message]:
        found: list[Message] = []
        while self.arrives and len(found) < most:
            each = self.arrives.pop(0)
            if isinstance(each, Message):
                found.append(each)
            else:
                each()
        return found

    def memberid(self) -> str | None:
        return self.member

    def consumer_group_metadata(self) -> bytes:
        return b"metadata of " + (self.member or "nobody").encode()

    def get_watermark_offsets(self, at: TopicPartition, *, cached: bool) -> tuple[int, int] | None:
        assert cached
        return 0, self.ends.get((at.topic, at.partition), -1)

    def close(self) -> None:
        self.closed = True


class FakeStarts:
    """Starts where a test says, else at 0."""

    def __init__(self) -> None:
        self.offsets: dict[Place, int] = {}
        self.epochs: dict[Place, int] = {}
        self.fails: Exception | None = None
        self.held_by: dict[Place, StreamError] = {}
        self.last_read: dict[Place, LastRead] = {}
        self.former: set[Place] = set()

    def of(self, partitions: Sequence[TopicPartition]) -> list[Start]:
        if self.fails:
            raise self.fails
        return [
            Start(
                place,
                self.last_read[place].end
                if place in self.last_read
                else self.offsets.get(place, 0),
                self.offsets.get(place, -1),
                "id-1",
                self.epochs.get(place, 0 if place in self.offsets else NO_EPOCH),
                self.held_by.get(place),
                last_read=self.last_read.get(place, NOTHING_READ),
                is_former=place in self.former,
            )
            for place in places(partitions)
        ]


class FakeLog:
    """The epoch log. A router sees the entries up to `shown`."""

    def __init__(self, *entries: Entry) -> None:
        self.epochs = Epochs()
        self.entries = list(entries)

    def read_to_end(self, _stop: Event | None = None) -> Epochs:
        return self.poll()

    def poll(self) -> Epochs:
        self.epochs = epochs_of(self.entries)
        return self.epochs


def adoption_of(spec: Flow, log: FakeLog | None = None, partitions: int = 4) -> Adoption:
    """An adoption that has begun; the log lists 10 partitions of the topic `raw`."""
    start = Switch(epoch=0, partitions=partitions, inputs={"raw": 10})
    adoption = Adoption(log or FakeLog(start), spec, RepartitionBy.ID)
    adoption.begin(Event())
    return adoption


def reader_of(
    group: FakeGroup, starts: FakeStarts | None = None, tails: LostTails | None = None
) -> InputReader:
    """A reader that has subscribed."""
    rebalances: list[int] = []
    reader = InputReader(
        group,  # type: ignore[arg-type] # what the reader calls of it
        starts or FakeStarts(),
        StillClock(),
        on_rebalance=lambda: rebalances.append(1),
        tails=tails or LostTails(),
    )
    reader.subscribe(["raw"])
    return reader
