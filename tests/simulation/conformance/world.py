"""A Kafka that a script runs on: simulated, or a broker."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined] # public names

from dedupe_kafka.clients import Clients
from tests.simulation.kafka.rights import Right

Answer = Any
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call] # the library's, untyped
EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # the library's, untyped
_READ_SECONDS: Final = 15.0


class World(ABC):
    """One Kafka, and names of topics, groups and transactional ids that no other script uses."""

    def __init__(self, clients: Clients, name: str, settings: dict[str, Any]) -> None:
        self._clients, self._settings = clients, settings
        self.name = name
        self.admin: AdminClient = clients.admin({**settings})

    @abstractmethod
    def create(self, topic: str, partitions: int = 1, **config: object) -> str:
        """Create a topic; return its name, which begins with `self.name`."""

    @abstractmethod
    def delete(self, topic: str) -> None:
        """Delete a topic, by its name as returned by `create`."""

    @abstractmethod
    def add_partitions(self, topic: str, total: int) -> None:
        """Add partitions."""

    @abstractmethod
    def delete_records(self, topic: str, before: int) -> None:
        """Delete the records of partition 0 before an offset."""

    @abstractmethod
    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so."""

    @contextmanager
    @abstractmethod
    def losing(self, topic: str) -> Iterator[Callable[[], None]]:
        """Yield what loses the records of partition 0 from its present end on.

        The leader's epoch rises at once, and with the loss again.
        """

    @contextmanager
    @abstractmethod
    def flipped(self, topic: str, value: bytes) -> Iterator[None]:
        """Let a byte of a record's value be another one on the disk of the broker meanwhile, in partition 0."""

    @contextmanager
    @abstractmethod
    def refusing(self, right: Right, name: str) -> Iterator[None]:
        """Let the clients of the script not have a right meanwhile."""

    @contextmanager
    @abstractmethod
    def frozen(self) -> Iterator[None]:
        """Let the cluster answer nothing meanwhile."""

    # -- clients ----------------------------------------------------------------------------------

    def producer(self, transactional: str | None = None, /, **settings: object) -> Producer:
        """Make a producer, which has initialized its transactions."""
        config = {"enable.idempotence": True, **settings}
        if transactional is not None:
            config["transactional.id"] = f"{self.name}-{transactional}"
        made: Producer = self._clients.producer({**self._settings, **config})
        if transactional is not None:
            made.init_transactions(15)
        return made

    def consumer(self, **settings: object) -> Consumer:
        """Make a consumer that is configured as the worker's."""
        made: Consumer = self._clients.consumer(
            {
                **self._settings,
                "group.id": f"{self.name}-group",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                **settings,
            }
        )
        return made

    def reader(self, topic: str, offset: int = 0, /, **settings: object) -> Consumer:
        """Make a consumer of partition 0 from an offset on."""
        made = self.consumer(**settings)
        made.assign([TopicPartition(topic, 0, offset)])
        return made

    # -- observations -----------------------------------------------------------------------------

    def offset(self, topic: str, spec: OffsetSpec = LATEST, *, committed: bool = True) -> int:
        """Return an offset of partition 0."""
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        where = TopicPartition(topic, 0)
        found = self.admin.list_offsets({where: spec}, isolation_level=isolation)
        return int(found[where].result(15).offset)

    def topic_id(self, topic: str) -> str:
        """Return the UUID of a topic."""
        found = self.admin.describe_topics(TopicCollection([topic]))
        return str(found[topic].result(15).topic_id)


def send(producer: Producer, topic: str, *values: bytes, **options: object) -> None:
    """Send records to partition 0."""
    for value in values:
        producer.produce(topic, value, partition=0, **options)  # type: ignore[arg-type] # the library's
    producer.flush(15)


def produce_before_its_topic_is_known(
    world: World, producer: Producer, topic: str, value: bytes, partition: int
) -> None:
    """Queue a producer's first record for a topic, which is accepted for any partition.

    A thread of the library asks for the partitions meanwhile: an answer that comes before `produce` returns makes it
    refuse a partition that is missing (2 of 1,200 on busy cores). So none comes.
    """
    with world.frozen():
        producer.produce(topic, value, partition=partition)


def read(consumer: Consumer, events: int = 1) -> list[tuple[int | None, object]]:
    """Return what a consumer delivers, to the first event (an end, an error), or the nth."""
    found: list[tuple[int | None, object]] = []
    for _ in range(int(_READ_SECONDS * 10)):
        if not events:
            break
        message = consumer.poll(0.1)
        if message is not None:
            found.append(seen(message))
            events -= message.error() is not None
    return found


def seen(message: Message) -> tuple[int | None, object]:
    """Return the offset of a message with its value, or with the name of its error."""
    error = message.error()
    return message.offset(), message.value() if error is None else error.name()


def outcome(call: Callable[..., object], *arguments: object) -> Answer:
    """Return what a call returns, or its error: its name, and what it says of itself."""
    try:
        return call(*arguments)
    except KafkaException as raised:
        return error_of(raised.args[0])


def either(answer: Answer, *alike: Answer) -> Answer:
    """Return the first of these for each of them: threads of the library decide which it is."""
    return alike[0] if answer in alike else answer


def error_of(error: KafkaError) -> str:
    """Return the name of an error, and whether it is fatal, retriable, or needs an abort."""
    flags = [
        flag
        for flag, is_so in (
            ("fatal", error.fatal()),
            ("retriable", error.retriable()),
            ("abort", error.txn_requires_abort()),
        )
        if is_so
    ]
    return " ".join([error.name(), *flags])
