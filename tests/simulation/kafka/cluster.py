"""A simulated cluster: topics, foreign writers, and the clients of each process.

    cluster = SimKafka(clock)
    cluster.create_topic("raw", partitions=2)
    cluster.write("raw", 0, [record(b"key", b"value")])
    factory = ComponentFactory(config, clock, cluster.clients("worker-1", hook))

A process that dies is disconnected: what its clients have queued is gone, and what the cluster has stays, such as an
open transaction. Invariant: nothing here waits, takes a thread, or depends on chance; time is the clock's.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from confluent_kafka import Message

from dedupe_kafka.clients import Clients
from tests.simulation.kafka.admin import SimAdmin
from tests.simulation.kafka.calls import Call, Hook
from tests.simulation.kafka.consumer import SimConsumer
from tests.simulation.kafka.foreign import ForeignTransaction
from tests.simulation.kafka.groups import Groups
from tests.simulation.kafka.log import Headers, PartitionLog, Record
from tests.simulation.kafka.members import Members
from tests.simulation.kafka.process import Process
from tests.simulation.kafka.producer import SimProducer
from tests.simulation.kafka.rights import Rights
from tests.simulation.kafka.topics import SimTopic, Topics
from tests.simulation.kafka.transactions import Coordinator


class SimulatedClock(Protocol):
    """The part of the simulated clock that a cluster and its clients use."""

    def time(self) -> float:
        """Return Unix seconds."""

    def monotonic(self) -> float:
        """Return seconds that never go backward."""

    def advance(self, seconds: float) -> None:
        """Let time pass. Other processes may run meanwhile."""


class SimKafka:
    """A cluster. `topic_ids=False`: as brokers before Kafka 2.8, the UUID of every topic is nil.

    `request_seconds` is how long each request takes, `most_in_batch` how many records a producer sends at once.
    """

    def __init__(
        self, clock: SimulatedClock, *, topic_ids: bool = True, request_seconds: float = 0.001
    ) -> None:
        self.clock = clock
        self.request_seconds = request_seconds
        self.most_in_batch = 10_000
        self.fetch_seconds: Callable[[str, str, int], float] | None = None
        """Makes the time that a fetch takes, by a process of a topic from an offset on. Without it: none."""
        self.consumers = 0
        """The number of consumers that were made."""
        self.rights = Rights()
        self._silenced: dict[tuple[str, str, int], int] = {}
        self.groups = Groups()
        self.coordinator = Coordinator(self.groups, clock.monotonic, clock.time)
        self.members = Members(self.coordinator, clock.monotonic)
        self.topics = Topics(self.groups, self.coordinator, topic_ids=topic_ids)

    def clients(self, process: str, hook: Hook) -> Clients:
        """Return what makes the clients of a process; `hook` is called around each call."""
        caller = Process(self, process, hook)
        return Clients(
            consumer=partial(SimConsumer, caller),
            producer=partial(SimProducer, caller),
            admin=partial(SimAdmin, caller),
        )

    def disconnect(self, process: str) -> None:
        """End a process: what its clients have queued is gone, and its open transaction stays open."""
        self.coordinator.drop(process)

    # -- topics --------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, config: dict[str, str] | None = None
    ) -> SimTopic:
        """Create a topic, which must not exist."""
        return self.topics.create(name, partitions, config or {})

    def delete_topic(self, name: str) -> None:
        """Delete a topic, its records, and the groups' offsets of it."""
        self.topics.delete(name)

    def recreate_topic(self, name: str) -> SimTopic:
        """Delete a topic, and create it again as it was, but empty and with another UUID."""
        old = self.topics.get(name)
        self.topics.delete(name)
        return self.topics.create(name, len(old.logs), old.config)

    def add_partitions(self, name: str, total: int) -> None:
        """Add partitions, so that there are `total`."""
        self.topics.get(name).grow(total)

    def delete_records(self, name: str, partition: int, before: int) -> None:
        """Delete the records before an offset, as retention and a user do."""
        self.log(name, partition).delete_before(before)

    def log(self, name: str, partition: int) -> PartitionLog:
        """Return the log of a partition, which must exist."""
        return self.topics.get(name).logs[partition]

    def visible(self, name: str, partition: int, *, committed: bool = True) -> list[Message]:
        """Return all records that a reader sees now."""
        self.coordinator.expire()
        log = self.log(name, partition)
        return log.fetch(log.low, committed=committed, at_most=2**62, patient=True).messages

    def truncate(self, name: str, partition: int, end: int) -> None:
        """Lose the records of a partition from an offset on, and get another leader."""
        self.log(name, partition).truncate(end)

    # -- faults ---------------------------------------------------------------------------------

    def leader_away(self, name: str, partition: int, seconds: float) -> None:
        """Let a partition have no leader for a time, as while it moves."""
        log = self.log(name, partition)
        log.leader_back_at = self.clock.monotonic() + seconds

    def stop_fetching(self, process: str, name: str, partition: int) -> None:
        """Let the consumers that a process has now fetch nothing more of a partition, without an error.

        As librdkafka may do after a moment without a leader. Consumers that are made later fetch it.
        """
        self._silenced[process, name, partition] = self.consumers

    def is_silenced(self, process: str, number: int, place: tuple[str, int]) -> bool:
        """Return whether the consumer of this number of a process has stopped fetching a partition."""
        return number <= self._silenced.get((process, *place), 0)

    def coordinator_away(self, seconds: float) -> None:
        """Let the coordinator of groups and transactions be away for a time."""
        self.coordinator.back_at = self.clock.monotonic() + seconds

    def expire_offsets(self, group: str) -> None:
        """Delete the offsets of a group, as Kafka does after a week without a commit."""
        self.groups.forget_group(group)

    # -- other producers --------------------------------------------------------------------------

    def write(self, name: str, partition: int, records: list[Record]) -> int:
        """Append records of a producer without transactions; return the first offset."""
        return self.log(name, partition).append(records)

    def begin_foreign(
        self, transactional_id: str, timeout_seconds: float = 60.0
    ) -> ForeignTransaction:
        """Begin a transaction of another system."""
        return ForeignTransaction(self, transactional_id, timeout_seconds)


def record(
    key: bytes | None,
    value: bytes | None,
    timestamp_ms: int = 1,
    headers: Headers | None = None,
) -> Record:
    """Return a record to write."""
    return Record(key, value, timestamp_ms, headers)


def no_faults(call: Call) -> None:
    """Do nothing: the hook of a process without faults."""
