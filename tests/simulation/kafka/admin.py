"""The stand-in for `confluent_kafka.admin.AdminClient`.

An answer that takes time is a future whose `result` lets the simulated time pass.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    Node,
    TopicCollection,
    TopicPartition,
    TopicPartitionInfo,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AclOperation,
    ConfigEntry,
    ConfigResource,
    DeletedRecords,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from tests.simulation.kafka.failures import failure
from tests.simulation.kafka.rights import Right

if TYPE_CHECKING:
    from tests.simulation.kafka.log import PartitionLog
    from tests.simulation.kafka.process import Process
    from tests.simulation.kafka.topics import SimTopic

_TIMEOUT_SECONDS: Final = 60.0
_ALL: Final = {
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.READ,
    AclOperation.WRITE,
}
_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3

T = TypeVar("T")


class SimFuture(Generic[T]):
    """An answer that arrives at a moment. It is made when it is first asked for after that.

    It has the methods of a `Future` that are called; a real one makes locks.
    """

    def __init__(
        self,
        process: "Process",
        ready_at: Callable[[], float],
        give_up_at: float,
        make: Callable[[], T],
    ) -> None:
        self._process = process
        self._ready_at = ready_at
        self._give_up_at = give_up_at
        self._make = make
        self._answer: list[T] = []

    def done(self) -> bool:
        """Return whether the answer has arrived, or will never."""
        return self._process.clock.monotonic() >= min(self._ready_at(), self._give_up_at)

    def result(self, timeout: float | None = None) -> T:
        """Return the answer, or raise its error. Raises TimeoutError if it does not arrive in time."""
        if not self._answer:
            clock, wait_until = self._process.clock, self._process.wait_until
            deadline = self._give_up_at
            if timeout is not None:
                deadline = min(deadline, clock.monotonic() + timeout)
            if not wait_until(self._ready_at(), deadline):
                if clock.monotonic() < self._give_up_at:
                    raise TimeoutError
                raise failure(
                    KafkaError._TIMED_OUT,  # noqa: SLF001 (a public name)
                    "Failed while waiting for response from broker: Local: Timed out",
                )
            self._answer.append(self._make())
        return self._answer[0]


class SimAdmin:
    """An admin client. Its methods are those of the library that the worker calls."""

    def __init__(self, process: "Process", config: dict[str, Any]) -> None:
        self._process, self._cluster = process, process.cluster
        self._clock = process.clock
        self._servers = config.get("bootstrap.servers")

    def create_topics(
        self, topics: list[NewTopic], request_timeout: float = _TIMEOUT_SECONDS
    ) -> dict[str, SimFuture[None]]:
        """Create topics."""

        def create(new: NewTopic) -> None:
            if self._cluster.topics.find(new.topic) is not None:
                raise failure(
                    KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{new.topic}' already exists."
                )
            config = {key: str(value) for key, value in (new.config or {}).items()}
            self._cluster.create_topic(new.topic, new.num_partitions, config)

        return {
            new.topic: self._ask("create_topics", request_timeout, partial(create, new))
            for new in topics
        }

    def create_partitions(
        self, topics: list[NewPartitions], request_timeout: float = _TIMEOUT_SECONDS
    ) -> dict[str, SimFuture[None]]:
        """Add partitions to topics."""

        def add(new: NewPartitions) -> None:
            topic = self._topic(new.topic)
            if new.new_total_count <= len(topic.logs):
                text = f"The topic {new.topic} currently has {len(topic.logs)} partition(s)"
                raise failure(KafkaError.INVALID_PARTITIONS, text)
            topic.grow(new.new_total_count)

        return {
            new.topic: self._ask("create_partitions", request_timeout, partial(add, new))
            for new in topics
        }

    def delete_records(
        self, before: list[TopicPartition], request_timeout: float = _TIMEOUT_SECONDS
    ) -> dict[TopicPartition, SimFuture[DeletedRecords]]:
        """Delete the records before offsets. That takes effect also if nobody waits for the answer."""

        def delete(where: TopicPartition) -> DeletedRecords:
            self._topic(where.topic)
            log = self._cluster.topics.log(where.topic, where.partition)
            if log is None or where.offset > log.end:
                raise failure(KafkaError.OFFSET_OUT_OF_RANGE)
            log.delete_before(where.offset)
            return DeletedRecords(log.low)

        return {
            where: self._ask_now("delete_records", request_timeout, partial(delete, where))
            for where in before
        }

    def poll(self, timeout: float = 0) -> int:  # noqa: ARG002 (the library's)
        """Serve callbacks: there are none."""
        return 0

    def describe_topics(
        self,
        topics: TopicCollection,
        include_authorized_operations: bool = False,
        request_timeout: float = _TIMEOUT_SECONDS,
    ) -> dict[str, SimFuture[TopicDescription]]:
        """Describe topics; with the rights to those that may not be read."""

        def describe(name: str) -> TopicDescription:
            return self._describe(name, rights=include_authorized_operations)

        return {
            name: self._ask("describe_topics", request_timeout, partial(describe, name))
            for name in topics.topic_names
        }

    def describe_configs(
        self, resources: list[ConfigResource], request_timeout: float = _TIMEOUT_SECONDS
    ) -> dict[ConfigResource, SimFuture[dict[str, ConfigEntry]]]:
        """Return the configuration of topics."""
        return {
            each: self._ask("describe_configs", request_timeout, partial(self._config, each.name))
            for each in resources
        }

    def list_offsets(
        self,
        topic_partition_offsets: dict[TopicPartition, OffsetSpec],
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float = _TIMEOUT_SECONDS,
    ) -> dict[TopicPartition, SimFuture[ListOffsetsResultInfo]]:
        """Return one offset of each partition."""
        committed = isolation_level is IsolationLevel.READ_COMMITTED
        return {
            where: self._ask(
                "list_offsets",
                request_timeout,
                partial(self._offset, where, spec._value, committed=committed),  # noqa: SLF001 (as the library does)
                self._cluster.topics.log(where.topic, where.partition),
            )
            for where, spec in topic_partition_offsets.items()
        }

    def describe_consumer_groups(
        self, group_ids: list[str], request_timeout: float = _TIMEOUT_SECONDS
    ) -> dict[str, SimFuture[Any]]:
        """Return the names of groups: the worker only looks for errors."""
        return {
            group: self._ask(
                "describe_consumer_groups", request_timeout, partial(str, group), group=True
            )
            for group in group_ids
        }

    def _ask(
        self,
        name: str,
        timeout: float,
        make: Callable[[], T],
        log: "PartitionLog | None" = None,
        *,
        group: bool = False,
    ) -> SimFuture[T]:
        now = self._clock.monotonic()
        first = now + self._cluster.request_seconds

        def ready_at() -> float:
            leader = log.leader_back_at if log is not None else 0.0
            coordinator = self._cluster.coordinator.back_at if group else 0.0
            return max(first, leader, coordinator)

        def answer() -> T:
            return self._process.request("admin", name, make)

        return SimFuture(self._process, ready_at, now + timeout, answer)

    def _ask_now(self, name: str, timeout: float, make: Callable[[], T]) -> SimFuture[T]:
        """Make a request whose effect waits for nobody; only its answer does."""
        try:
            found = self._process.request("admin", name, make)
        except KafkaException as error:
            failed = error

            def answer() -> T:
                raise failed
        else:

            def answer() -> T:
                return found

        now = self._clock.monotonic()
        first = now + self._cluster.request_seconds
        return SimFuture(self._process, lambda: first, now + timeout, answer)

    def _topic(self, name: str) -> "SimTopic":
        topic = self._cluster.topics.find(name)
        if topic is None:
            raise failure(KafkaError.UNKNOWN_TOPIC_OR_PART, "Broker: Unknown topic or partition")
        return topic

    def _describe(self, name: str, *, rights: bool) -> TopicDescription:
        topic, node = self._topic(name), Node(1, "simulated", 9092)
        now, nobody = (
            self._clock.monotonic(),
            cast("Node", None),
        )  # the library's type does not say so
        partitions = [
            TopicPartitionInfo(
                each.partition, node if now >= each.leader_back_at else nobody, [node], [node]
            )
            for each in topic.logs
        ]
        lacks = self._cluster.rights.lacks
        refused = {
            operation
            for right, operation in (
                (Right.READ, AclOperation.READ),
                (Right.WRITE, AclOperation.WRITE),
            )
            if lacks(right, name)
        }
        return TopicDescription(
            name,
            topic.id,
            is_internal=False,
            partitions=partitions,
            authorized_operations=list(_ALL - refused) if rights and refused else None,
        )

    def _config(self, name: str) -> dict[str, ConfigEntry]:
        return {key: ConfigEntry(key, value) for key, value in self._topic(name).config.items()}

    def _offset(
        self, where: TopicPartition, spec: int, *, committed: bool
    ) -> ListOffsetsResultInfo:
        log = self._cluster.topics.log(where.topic, where.partition)
        self._topic(where.topic)
        if log is None:
            raise failure(
                KafkaError._NOENT,  # noqa: SLF001 (a public name)
                "Failed to query partition leaders: No leaders found",
            )
        if spec == _LATEST:
            return ListOffsetsResultInfo(log.visible_end(committed=committed), -1, 0)
        if spec == _EARLIEST:
            return ListOffsetsResultInfo(log.low, -1, 0)
        found = (
            log.newest(committed=committed)
            if spec == _MAX_TIMESTAMP
            else log.offset_at(spec, committed=committed)
        )
        return ListOffsetsResultInfo(*(found or (-1, -1)), 0)
