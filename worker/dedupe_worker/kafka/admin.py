"""What the worker asks Kafka about its two topics."""

import time
from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from threading import Event
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its documented names, not in its __all__
    AclOperation,
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from dedupe_kafka.client import kafka_error
from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized, StreamError, TopicMissing
from dedupe_worker.kafka.rights import check_rights

_TIMEOUT_SECONDS: Final = 15.0
_ANSWER_SECONDS: Final = _TIMEOUT_SECONDS + 2  # the client's own time-out comes first
_POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. `id` is its UUID: a topic deleted and created again has another."""

    name: str
    id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets of a partition: `low` is the first that is kept, `end` the last stable offset."""

    low: int
    end: int


class Topics:
    """Questions to the cluster, each bounded in time, and cut short when `stop` is set.

    Raises TopicMissing, NotAuthorized or BrokerUnavailable."""

    def __init__(self, admin: AdminClient, stop: Event) -> None:
        self._admin = admin
        self._stop = stop

    def describe(
        self, name: str, partition: int, needed: Collection[AclOperation] = frozenset()
    ) -> Topic:
        """The topic, which must have the partition and allow what is needed."""
        asked = self._admin.describe_topics(
            TopicCollection([name]),
            include_authorized_operations=bool(needed),
            request_timeout=_TIMEOUT_SECONDS,
        )
        found = self._answer(asked[name], f"describing topic {name}")
        check_rights(f"topic {name}", found.authorized_operations, needed)
        topic = Topic(name, str(found.topic_id), len(found.partitions))
        if partition >= topic.partitions:
            raise TopicMissing(
                f"topic {name} has {topic.partitions} partitions and none with the number {partition}; "
                "add partitions, the worker goes on by itself"
            )
        return topic

    def check_group(self, group: str) -> None:
        """Raise NotAuthorized if the credentials have no right to the group, which its own client would not tell."""
        asked = self._admin.describe_consumer_groups([group], request_timeout=_TIMEOUT_SECONDS)
        try:
            self._answer(asked[group], f"asking for group {group}")
        except NotAuthorized:
            raise
        except StreamError:
            return  # no more than a group that is not there yet, or what stopped the client as well

    def max_message_bytes(self, name: str) -> int:
        """The largest record batch the topic takes, in bytes."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        asked = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_SECONDS)
        found = self._answer(asked[resource], f"reading the configuration of topic {name}")
        return int(found["max.message.bytes"].value)

    def offsets(self, name: str, partition: int) -> Range:
        """The range of offsets that a read_committed consumer can read."""
        return Range(
            self._offset(name, partition, OffsetSpec.earliest()),  # type: ignore[no-untyped-call] # confluent-kafka's, untyped
            self.end(name, partition),
        )

    def end(self, name: str, partition: int) -> int:
        """The last stable offset: where a read_committed consumer ends."""
        return self._offset(name, partition, OffsetSpec.latest())  # type: ignore[no-untyped-call] # confluent-kafka's, untyped

    def offset_at(self, name: str, partition: int, when: datetime) -> int | None:
        """The first offset whose timestamp is not before `when`; None if there is none."""
        spec = OffsetSpec.for_timestamp(int(when.timestamp() * 1000))
        offset = self._offset(name, partition, spec)
        return offset if offset >= 0 else None

    def _offset(self, name: str, partition: int, spec: OffsetSpec) -> int:
        where = TopicPartition(name, partition)
        asked = self._admin.list_offsets(
            {where: spec},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_TIMEOUT_SECONDS,
        )
        found = self._answer(asked[where], f"asking for offsets of {name}/{partition}")
        return int(found.offset)

    def _answer(self, future: "Future[Any]", action: str) -> Any:  # noqa: ANN401 (whatever was asked for)
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline and not self._stop.is_set():
            try:
                return future.result(_POLL_SECONDS)
            except TimeoutError:
                self._admin.poll(0)  # lets the client say why it can't get through
            except KafkaException as error:
                raise kafka_error(error, action) from error
        raise BrokerUnavailable(f"{action}: no answer")
