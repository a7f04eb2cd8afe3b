"""Query Kafka about the worker's topics: UUIDs, offsets, and missing ACLs.

A session asks at its start, bootstrap and full reconcile ask for offsets. Invariant: a missing ACL is reported before
anything is written. The table of ACLs in docs/kubernetes.md lists what `needed_rights` returns.
"""

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Event
from typing import Final

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its documented names, not in its __all__
    AclOperation,
    AdminClient,
    OffsetSpec,
)

from dedupe_crds.clock import Clock
from dedupe_crds.spec.stream import Spec
from dedupe_kafka.client import calling
from dedupe_kafka.errors import NotAuthorized, OpenTransaction, Stopped, StreamError, TopicMissing
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.open_transaction import open_transaction
from dedupe_kafka.requests import LATEST, AdminRequests
from dedupe_kafka.side_topics import metadata_topics, needs_owner_log, owners_topic, routed_topics

_TIMEOUT_SECONDS: Final = 15.0
_HANG_SECONDS: Final = _TIMEOUT_SECONDS + 2  # the client's own timeout comes first
_LOOK_SECONDS: Final = 1.0
_READ: Final = frozenset({AclOperation.READ})
_WRITE: Final = frozenset({AclOperation.WRITE})
_DELETE: Final = frozenset({AclOperation.DELETE})


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now.

    `id` is its UUID: a topic deleted and created again has another.
    """

    name: str
    id: str
    partitions: int


class Topics:
    """Requests about topics, each bounded in time; `on_answer` is called after each.

    Raises TopicMissing, NotAuthorized or BrokerUnavailable, and Stopped once `stop` is set.
    """

    def __init__(
        self,
        admin: AdminClient,
        stop: Event,
        clock: Clock,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self._pause = partial(_pause, clock, stop)
        self._requests = AdminRequests(
            admin,
            timeout_seconds=_TIMEOUT_SECONDS,
            hang_seconds=_HANG_SECONDS,
            stop=stop,
            deadline=clock.deadline,
            on_answer=on_answer,
        )

    def describe(
        self, name: str, partition: int, needed: Collection[AclOperation] = frozenset()
    ) -> Topic:
        """Return the topic, which must have the partition and allow the needed operations."""
        found = self._requests.describe(name, include_authorized_operations=bool(needed))
        check_rights(f"topic {name}", found.authorized_operations, needed)
        topic = Topic(name, str(found.topic_id), len(found.partitions))
        if partition >= topic.partitions:
            raise TopicMissing(
                f"topic {name} has {topic.partitions} partitions and none with the number {partition}; "
                "add partitions, the worker continues automatically"
            )
        return topic

    def check_group(self, group: str) -> None:
        """Raise NotAuthorized if an ACL for the group is missing.

        A consumer does not report that. Whatever else keeps the answer away is ignored, also a stop: the caller has a
        failure already, which must stay reported.
        """
        with calling(f"describing group {group}"):
            futures = self._requests.admin.describe_consumer_groups(
                [group], request_timeout=_TIMEOUT_SECONDS
            )
        try:
            self._requests.answer(futures[group], f"describing group {group}")
        except NotAuthorized:
            raise
        except (StreamError, Stopped):
            return  # the group does not exist yet, or the cause stops the consumer as well

    def delete_before(self, name: str, partition: int, offset: int) -> "Future[object]":
        """Ask the broker to delete the records before an offset; do not wait."""
        where = TopicPartition(name, partition, offset)
        with calling(f"deleting what is read of {name}/{partition}"):
            asked = self._requests.admin.delete_records([where], request_timeout=_TIMEOUT_SECONDS)
        (answer,) = asked.values()
        return answer

    def max_message_bytes(self, name: str) -> int:
        """Return the size of the largest record batch that the topic accepts, in bytes."""
        return int(self._requests.config(name)["max.message.bytes"])

    def offsets(self, name: str, partition: int) -> OffsetRange:
        """Return the offsets that a `read_committed` consumer can read."""
        return self._requests.offset_range(name, partition)

    def high_watermark(self, name: str, partition: int) -> int:
        """Return the end of the partition, with the records of open transactions."""
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        return self._requests.offsets(name, [partition], LATEST, uncommitted)[partition]

    def settled_offsets(
        self,
        name: str,
        partition: int,
        *,
        servers: str,
        on_wait: Callable[[OpenTransaction], None],
    ) -> OffsetRange:
        """Return the offsets once every transaction that is open now has ended.

        Calls `on_wait` as long as it waits, about once a second. The end is before what it was at first if the topic
        was deleted and created again meanwhile. Raises Stopped if it is stopped meanwhile.
        """
        goal = self.high_watermark(name, partition)
        while True:
            found = self.offsets(name, partition)
            if found.end >= goal:
                return found
            error = open_transaction(name, partition, found.end, goal, servers)
            if not self._pause():
                raise Stopped(str(error))
            on_wait(error)
            goal = min(goal, self.high_watermark(name, partition))

    def end(self, name: str, partition: int) -> int:
        """Return the last stable offset, at which a `read_committed` consumer ends."""
        return self.ends(name, [partition])[partition]

    def ends(self, name: str, partitions: Collection[int]) -> dict[int, int]:
        """Return the last stable offset of each of the partitions."""
        return self._requests.offsets(name, partitions, LATEST)

    def offset_at(self, name: str, partition: int, when: datetime) -> int | None:
        """Return the first offset with a timestamp at or after `when`; None if none."""
        spec = OffsetSpec.for_timestamp(int(when.timestamp() * 1000))
        offset = self._requests.offsets(name, [partition], spec)[partition]
        return offset if offset >= 0 else None


def _pause(clock: Clock, stop: Event) -> bool:
    """Wait before the next request; return False if `stop` is set."""
    return not clock.wait(stop, _LOOK_SECONDS)


def needed_rights(spec: Spec) -> dict[str, frozenset[AclOperation]]:
    """Return the operations on each topic of a stream: input first, then output."""
    trims = spec.repartition is not None
    needed = {
        spec.worker_input: _READ | _WRITE | _DELETE if trims else _READ,
        spec.output.topic: _READ | _WRITE,
    }
    needed |= dict.fromkeys((*routed_topics(spec), *metadata_topics(spec)), _WRITE)
    if needs_owner_log(spec):
        needed[owners_topic(spec.output.topic)] = _READ | _WRITE
    return needed


def check_rights(
    what: str, allowed: Collection[AclOperation] | None, needed: Iterable[AclOperation]
) -> None:
    """Raise NotAuthorized if the broker does not allow a needed operation.

    A broker may not report what it allows (`allowed` is None or empty; the report itself needs DESCRIBE). Such a broker
    refuses the operation when it is requested.
    """
    missing = (
        sorted(operation.name for operation in needed if operation not in allowed)
        if allowed
        else []
    )
    if missing:
        raise NotAuthorized(
            f"{what}: the Kafka credentials lack the ACL {' and '.join(missing)}; grant it, the worker retries "
            "automatically"
        )
