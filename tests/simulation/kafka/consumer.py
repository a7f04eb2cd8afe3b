"""The stand-in for `confluent_kafka.Consumer`: it fetches ahead into a queue, and delivers from there.

Fetching happens at calls, where the library has a thread. So what was fetched before a topic was deleted is still
delivered. A consumer reports no error if its topic is gone; if it is created again, the consumer continues at the same
offset of the new topic, which mostly does not have it. Only the watermarks are unknown for half a second: the first
fetch fails, because it names the topic by its UUID (measured with Kafka 4.3 and librdkafka 2.16).
"""

import json
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, Message, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are public
    ClusterMetadata,
    TopicMetadata,
)

from tests.simulation.kafka.assignor import Place
from tests.simulation.kafka.failures import failure, kafka_error
from tests.simulation.kafka.groups import Committed
from tests.simulation.kafka.log import Fetched, PartitionLog
from tests.simulation.kafka.members import GroupMetadata
from tests.simulation.kafka.membership import Callback, Membership
from tests.simulation.kafka.rights import Right

if TYPE_CHECKING:
    from tests.simulation.kafka.process import Process

_LOGICAL_OFFSETS: Final = {-1: "end", -2: "low"}
_UNKNOWN: Final = -1001
_MOST_QUEUED: Final = 100_000
_OUT_OF_RANGE: Final = (
    "fetch failed due to requested offset not available on the broker: "
    "Broker: Offset out of range (broker 1)"
)
_ERROR_BACKOFF_SECONDS: Final = 0.5


class _Assigned:
    """One partition that is read. `position` is the next offset to fetch."""

    def __init__(self, where: TopicPartition) -> None:
        self.topic, self.partition, self.position = where.topic, where.partition, where.offset
        self.log: PartitionLog | None = None
        self.stopped = self.refused = False
        self.eof_at = _UNKNOWN
        self.low = self.high = self.stable = _UNKNOWN
        self.epoch = self.leader_epoch = -1
        """That of the last batch before the position, and the last one of the leader."""
        self.unproved = False
        """True after a `seek` has named the epoch of the position, until the leader is asked for it."""
        self.coming: Fetched | None = None
        self.comes_at = self.retry_at = 0.0
        self.received = 0
        self.received_bytes = 0

    @property
    def place(self) -> Place:
        """Return the topic and the partition."""
        return self.topic, self.partition


class SimConsumer:
    """A consumer, of partitions that it chooses or is given. Its methods are those of the library that are called."""

    def __init__(self, process: "Process", config: dict[str, Any]) -> None:
        self._process, self._cluster = process, process.cluster
        self._clock = process.clock
        self._cluster.consumers += 1
        self._number = self._cluster.consumers
        self._group = str(config["group.id"])
        self._committed = config.get("isolation.level", "read_committed") == "read_committed"
        self._shows_end = bool(config.get("enable.partition.eof"))
        self._most_queued = int(config.get("queued.min.messages", _MOST_QUEUED))
        self._on_statistics = config.get("stats_cb")
        self._statistics_seconds = int(config.get("statistics.interval.ms", 0)) / 1000
        self._statistics_at = self._clock.monotonic() + self._statistics_seconds
        self._assigned: list[_Assigned] = []
        self._queue: deque[Message] = deque()
        self._found: list[Message] = []
        """The messages that the present call returns."""
        self._paused: set[Place] = set()
        self._membership = Membership(process, self._group, config)

    # -- the group -------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Read what the group gives of these topics. The callbacks are called by `poll` and `consume`."""

        def subscribe() -> None:
            callbacks = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
            self._membership.subscribe(topics, **callbacks)

        self._process.local("consumer", "subscribe", subscribe)

    def unsubscribe(self) -> None:
        """Leave the group."""
        leave = self._membership.subscribe
        self._process.local("consumer", "unsubscribe", lambda: leave(()))

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions as well, each from its offset on."""

        def assign() -> None:
            self._assigned += map(_Assigned, partitions)

        self._process.local("consumer", "incremental_assign", assign)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions no longer. What was fetched of them is dropped, also by the present call."""

        def unassign() -> None:
            gone = {(each.topic, each.partition) for each in partitions}
            self._assigned = [each for each in self._assigned if each.place not in gone]
            self._drop(gone)

        self._process.local("consumer", "incremental_unassign", unassign)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Deliver nothing of these partitions. They stay paused if they are given away and back."""

        def pause() -> None:
            places = {(each.topic, each.partition) for each in partitions}
            self._paused |= places
            for each in self._assigned:
                if each.place in places:
                    queued = [m for m in self._queue if _place(m) == each.place and not m.error()]
                    each.position = (queued[0].offset() or 0) if queued else each.position
                    each.coming, each.eof_at = None, _UNKNOWN
            self._drop(places)

        self._process.local("consumer", "pause", pause)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Deliver of these partitions again, from where they were paused."""
        places = {(each.topic, each.partition) for each in partitions}
        self._process.local("consumer", "resume", lambda: self._paused.difference_update(places))

    def memberid(self) -> str:
        """Return the member id; empty without a membership."""
        self._membership.serve()
        return self._process.local("consumer", "memberid", lambda: self._membership.metadata.member)

    # -- reading --------------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, each from its offset on; what is queued is dropped."""
        self._process.local("consumer", "assign", lambda: self._assign(partitions))

    def seek(self, partition: TopicPartition) -> None:
        """Read on from another offset of a partition that is assigned.

        It is no call of its own for a schedule: it follows an `assign`, or changes nothing that others see.
        """
        for each in self._assigned:
            if each.place == _key(partition):
                self._drop([each.place])
                each.position, each.coming, each.eof_at = partition.offset, None, _UNKNOWN
                each.stopped = False
                each.epoch = -1 if partition.leader_epoch is None else partition.leader_epoch
                each.unproved = each.epoch >= 0

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Return up to `num_messages` messages, as many as arrive in `timeout` seconds."""
        return self._receive("consume", num_messages, timeout)

    def poll(self, timeout: float = -1) -> Message | None:
        """Return the next message, as soon as there is one."""
        found = self._receive("poll", 1, timeout)
        return found[0] if found else None

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int] | None:
        """Return low and high watermark.

        The cached ones are of the last fetch; asked for, the high one is the last stable offset for a reader of
        committed records.
        """
        if cached:
            for each in self._assigned:
                if (each.topic, each.partition) == (partition.topic, partition.partition):
                    return each.low, each.high
            return _UNKNOWN, _UNKNOWN
        return self._process.request(
            "consumer", "get_watermark_offsets", lambda: self._query(partition, timeout)
        )

    def list_topics(self, topic: str, timeout: float = -1) -> ClusterMetadata:
        """Return the metadata of a topic, as far as it is used: the error of one that does not exist."""
        assert timeout > 0
        return self._process.request("consumer", "list_topics", lambda: self._describe(topic))

    def close(self) -> None:
        """Stop reading, and leave the group."""
        if self._membership.is_subscribed:
            self._membership.close(self)
        self._assigned, self._queue = [], deque()

    # -- offsets of the group ---------------------------------------------------------------------

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return the committed offsets. Waits while an open transaction may still commit one."""
        return self._process.request(
            "consumer", "committed", lambda: self._find_committed(partitions, timeout)
        )

    def commit(
        self,
        message: None = None,  # noqa: ARG002 (the library's order)
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition]:
        """Commit offsets with their metadata, and wait for the answer."""
        assert offsets is not None and not asynchronous  # noqa: PT018 (what the worker calls)
        return self._process.request("consumer", "commit", lambda: self._commit(offsets))

    def consumer_group_metadata(self) -> bytes:
        """Return what a transaction needs to commit offsets of this group."""
        if not self._membership.is_subscribed:
            return _encoded(self._membership.metadata)
        self._membership.serve()
        return self._process.local(
            "consumer", "consumer_group_metadata", lambda: _encoded(self._membership.metadata)
        )

    # -- how ------------------------------------------------------------------------------------

    def _assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned = [_Assigned(each) for each in partitions]
        self._queue.clear()

    def _receive(self, name: str, most: int, timeout: float) -> list[Message]:
        deadline = self._clock.monotonic() + max(0.0, timeout)
        nothing: list[Message] = []
        return self._process.serve(
            "consumer", name, lambda: self._wait(most, deadline), nothing, deadline
        )

    def _wait(self, most: int, deadline: float) -> list[Message]:
        queue, self._found = self._queue, []
        found, membership = self._found, self._membership
        while True:
            if membership.is_subscribed:
                membership.serve()
                membership.call_back(self)
            self._fetch()
            while queue and len(found) < most:
                found.append(queue.popleft())
            now = self._clock.monotonic()
            if len(found) >= most or now >= deadline:
                break
            coming = [each.comes_at for each in self._assigned if each.coming is not None]
            self._process.wait_until(min([deadline, *coming]), deadline)
        self._fetch()
        self._report_statistics()
        return found

    def _drop(self, places: Iterable[Place]) -> None:
        """Drop what was fetched of partitions."""
        gone = set(places)
        kept = [message for message in self._queue if _place(message) not in gone]
        self._queue.clear()
        self._queue.extend(kept)
        self._found[:] = [message for message in self._found if _place(message) not in gone]

    def _fetch(self) -> None:
        self._cluster.coordinator.expire()
        for each in self._assigned:
            if each.stopped or each.place in self._paused or self._is_silenced(each):
                continue
            if self._is_refused(each):
                continue
            self._fetch_partition(each)

    def _is_refused(self, each: _Assigned) -> bool:
        """Return whether the topic may not be read; the first time this is an event."""
        if not self._cluster.rights.lacks(Right.READ, each.topic):
            each.refused = False
            return False
        if not each.refused:
            each.refused, each.coming = True, None
            text = "Fetch from broker 1 failed: Broker: Topic authorization failed"
            self._queue.append(_event(each, KafkaError.TOPIC_AUTHORIZATION_FAILED, text))
        return True

    def _is_silenced(self, each: _Assigned) -> bool:
        return self._cluster.is_silenced(self._process.name, self._number, each.place)

    def _fetch_partition(self, each: _Assigned) -> None:
        log = self._log_of(each)
        now = self._clock.monotonic()
        while log is not None and now >= log.leader_back_at:
            if each.coming is not None:
                if now < each.comes_at:
                    return
                self._take(each, each.coming)
            self._start(each, log)
            if self._has_parted(each, log):
                return
            if not log.low <= each.position <= log.end:
                self._stop(each, _OUT_OF_RANGE, each.position)
                return
            each.low, each.high = log.low, log.end
            each.stable = log.visible_end(committed=self._committed)
            if each.position >= each.stable:
                self._show_end(each)
                return
            room = self._most_queued - len(self._queue)
            if room <= 0:
                return
            fetched = log.fetch(each.position, committed=self._committed, at_most=room)
            if fetched.damaged is not None:
                self._show_damage(each, fetched.damaged)
                return
            each.coming, each.comes_at = fetched, now + fetched.seconds + self._slowness(each)
            log.read_up_to = max(log.read_up_to, fetched.next_offset)

    def _slowness(self, each: _Assigned) -> float:
        seconds = self._cluster.fetch_seconds
        return seconds(self._process.name, each.topic, each.position) if seconds else 0.0

    def _log_of(self, each: _Assigned) -> PartitionLog | None:
        now = self._clock.monotonic()
        if each.log is not None and each.log.gone:
            each.log, each.retry_at = None, now + _ERROR_BACKOFF_SECONDS
            each.low = each.high = each.stable = -1
        if each.log is None and now >= each.retry_at:
            each.log = self._cluster.topics.log(each.topic, each.partition)
        return each.log

    def _start(self, each: _Assigned, log: PartitionLog) -> None:
        if each.position < 0:
            each.position = getattr(log, _LOGICAL_OFFSETS[each.position])

    def _has_parted(self, each: _Assigned, log: PartitionLog) -> bool:
        """Ask the leader for the position's epoch after a seek, and when the leader's epoch rises."""
        risen = 0 <= each.leader_epoch < log.epoch
        each.leader_epoch = log.epoch
        asks, each.unproved = (each.unproved or risen) and each.epoch >= 0, False
        end, epoch = log.epoch_end(each.epoch) if asks else (each.position, -1)
        if end >= each.position:
            return False
        text = (
            f"Partition log truncation detected at offset {each.position} (leader epoch {each.epoch}): broker end "
            f"offset is {end} (offset leader epoch {epoch}). Reset to INVALID.: Local: Partition log truncation "
            "detected (broker 1)"
        )
        self._stop(each, text, _UNKNOWN)
        return True

    def _take(self, each: _Assigned, fetched: Fetched) -> None:
        self._queue.extend(fetched.messages)
        each.position, each.coming = fetched.next_offset, None
        each.epoch = each.epoch if fetched.epoch < 0 else fetched.epoch
        each.received += len(fetched.messages)
        each.received_bytes += sum(map(len, fetched.messages))

    def _stop(self, each: _Assigned, text: str, offset: int) -> None:
        each.stopped = True
        each.low = each.high = each.stable = -1
        each.eof_at = _UNKNOWN
        error = kafka_error(KafkaError._AUTO_OFFSET_RESET, text)  # noqa: SLF001 (a public name)
        topic, partition = each.place
        event = Message(topic=topic, partition=partition, offset=offset, error=error)
        self._queue.append(event)

    def _show_end(self, each: _Assigned) -> None:
        if self._shows_end and each.eof_at != each.position:
            each.eof_at = each.position
            at = f"{each.position} (HighwaterMark {each.high})"
            text = f"Fetch from broker 1 reached end of partition at offset {at}"
            self._queue.append(_event(each, KafkaError._PARTITION_EOF, text))  # noqa: SLF001 (a public name)

    def _show_damage(self, each: _Assigned, offset: int) -> None:
        """Deliver an error, again with each fetch."""
        error = kafka_error(KafkaError._BAD_MSG, "failed CRC32C check")  # noqa: SLF001 (a public name)
        topic, partition = each.place
        self._queue.append(Message(topic=topic, partition=partition, offset=offset, error=error))

    def _query(self, where: TopicPartition, timeout: float) -> tuple[int, int]:
        self._process.wait_request()
        log = self._cluster.topics.log(where.topic, where.partition)
        deadline = self._clock.monotonic() + timeout
        if log is None:
            text = "Failed to get watermark offsets: Local: Unknown partition"
            raise failure(KafkaError._UNKNOWN_PARTITION, text)  # noqa: SLF001 (a public name)
        if not self._process.wait_until(log.leader_back_at, deadline):
            raise failure(KafkaError._TIMED_OUT)  # noqa: SLF001 (a public name)
        return log.low, log.visible_end(committed=self._committed)

    def _describe(self, name: str) -> ClusterMetadata:
        self._process.wait_request()
        found, described = ClusterMetadata(), TopicMetadata()
        if self._cluster.topics.find(name) is None:
            described.error = kafka_error(KafkaError.UNKNOWN_TOPIC_OR_PART)
        found.topics = {name: described}
        return found

    def _find_committed(
        self, partitions: list[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        deadline = self._clock.monotonic() + timeout
        self._process.wait_request()
        back_at, groups = self._cluster.coordinator.back_at, self._cluster.groups
        if self._cluster.rights.lacks(Right.GROUP, self._group):
            raise failure(KafkaError.GROUP_AUTHORIZATION_FAILED)
        stable = self._process.wait_until(back_at, deadline)
        while (
            stable
            and self._committed
            and any(
                groups.is_unstable(self._group, each.topic, each.partition) for each in partitions
            )
        ):
            now = self._clock.monotonic()
            stable = self._process.wait_until(now + 0.5, deadline)
            self._cluster.coordinator.expire()
        if not stable:
            raise failure(
                KafkaError._TIMED_OUT,  # noqa: SLF001 (a public name)
                "Failed to get committed offsets: Local: Timed out",
            )
        return [self._with_offset(each) for each in partitions]

    def _with_offset(self, where: TopicPartition) -> TopicPartition:
        found = self._cluster.groups.committed(self._group, where.topic, where.partition)
        if found is None:
            return TopicPartition(where.topic, where.partition, _UNKNOWN)
        at = TopicPartition(where.topic, where.partition, found.offset)
        if found.epoch >= 0:
            return TopicPartition(*_key(at), found.offset, found.metadata, found.epoch)
        return TopicPartition(*_key(at), found.offset, found.metadata) if found.metadata else at

    def _commit(self, offsets: list[TopicPartition]) -> list[TopicPartition]:
        deadline = self._clock.monotonic() + 60.0
        self._process.wait_request()
        if not self._process.wait_until(self._cluster.coordinator.back_at, deadline):
            raise failure(KafkaError._TIMED_OUT, "Commit failed: Local: Timed out")  # noqa: SLF001 (a public name)
        metadata = self._membership.metadata
        if self._cluster.rights.lacks(Right.GROUP, self._group):
            raise failure(KafkaError.GROUP_AUTHORIZATION_FAILED)
        refused = self._cluster.members.refusal(metadata, transactional=False)
        if refused is not None:
            raise failure(refused)
        for each in offsets:
            if self._cluster.rights.lacks(Right.READ, each.topic):
                raise failure(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            if self._cluster.topics.log(each.topic, each.partition) is None:
                raise failure(
                    KafkaError.UNKNOWN_TOPIC_OR_PART,
                    "Commit failed: Broker: Unknown topic or partition",
                )
        for each in offsets:
            committed = Committed.of(each)
            groups = self._cluster.groups
            groups.commit(
                (self._group, each.topic, each.partition), committed, groups.next_commit()
            )
        return [TopicPartition(each.topic, each.partition, each.offset) for each in offsets]

    def _report_statistics(self) -> None:
        if self._on_statistics is None or not self._statistics_seconds:
            return
        now = self._clock.monotonic()
        if now < self._statistics_at:
            return
        self._statistics_at = now + self._statistics_seconds
        topics: dict[str, Any] = {}
        for each in self._assigned:
            partitions = topics.setdefault(each.topic, {"topic": each.topic, "partitions": {}})
            partitions["partitions"][str(each.partition)] = _statistics(each, len(self._queue))
        self._on_statistics(json.dumps({"topics": topics}))


def decoded(metadata: object) -> GroupMetadata:
    """Return the content of `consumer_group_metadata`."""
    assert isinstance(metadata, bytes)
    return GroupMetadata(*json.loads(metadata))


def _encoded(metadata: GroupMetadata) -> bytes:
    return json.dumps(metadata).encode()


def _place(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0


def _key(where: TopicPartition) -> Place:
    return where.topic, where.partition


def _event(each: _Assigned, code: int, text: str) -> Message:
    return Message(
        topic=each.topic,
        partition=each.partition,
        offset=each.position,
        error=kafka_error(code, text),
    )


def _statistics(each: _Assigned, queued: int) -> dict[str, Any]:
    return {
        "partition": each.partition,
        "fetchq_cnt": queued,
        "fetch_state": "none" if each.stopped else "active",
        "next_offset": 0 if each.stopped else each.position,
        "eof_offset": each.eof_at,
        "lo_offset": each.low,
        "hi_offset": each.high,
        "ls_offset": each.stable,
        "rxmsgs": each.received,
        "rxbytes": each.received_bytes,
    }
