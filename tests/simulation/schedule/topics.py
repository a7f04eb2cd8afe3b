"""Actions on topics, groups and brokers."""

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final, Self

from tests.simulation.kafka.rights import Right
from tests.simulation.recorder import FOREIGN
from tests.simulation.schedule.settings import GROUP, INPUT, OUTPUT

if TYPE_CHECKING:
    from tests.simulation.world import World

REFUSE_SHARE: Final = 0.1
"""The schedules in which a right is refused."""

DAMAGE_SHARE: Final = 0.1
"""The schedules that have a damaged batch."""


@dataclass(frozen=True, slots=True)
class Recreate:
    """Delete a topic, and create it again."""

    topic: str

    @property
    def fault(self) -> str:
        """Name it."""
        return f"{self.topic} topic recreated"

    def perform(self, world: "World", partition: int) -> None:  # noqa: ARG002 (of all partitions)
        """Do it."""
        world.recreate(self.topic)


@dataclass(frozen=True, slots=True)
class Retain:
    """Delete the oldest `share` of a partition's records, as retention does."""

    topic: str
    share: float

    @property
    def fault(self) -> str:
        """Name it."""
        return f"{self.topic} retention"

    def perform(self, world: "World", partition: int) -> None:
        """Delete them."""
        world.delete_records(self.topic, partition, self.share)


@dataclass(frozen=True, slots=True)
class LoseInput:
    """Lose the newest `share` of an input partition's records, as brokers do that lose their power."""

    share: float
    fault = "input truncated"

    def perform(self, world: "World", partition: int) -> None:
        """Lose them."""
        world.lose_tail(INPUT, partition, self.share)


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage the batch at a `share` of a partition's batches, from 0 to 1, until its replica is repaired."""

    topic: str
    share: float
    seconds: float
    fault = "records damaged"

    @classmethod
    def chosen(cls, random: Random, topic: str) -> Self:
        """Choose a batch, and how long it is damaged."""
        return cls(topic, random.choice([0.0, 0.5, 0.9, 1.0]), random.choice([5.0, 60.0]))

    def perform(self, world: "World", partition: int) -> None:
        """Damage it."""
        world.damage(self.topic, partition, self.share, self.seconds)


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Add a partition to the input and the output."""

    fault = "partitions added"

    def perform(self, world: "World", partition: int) -> None:  # noqa: ARG002 (to whole topics)
        """Add it."""
        for topic in (OUTPUT, INPUT):
            world.kafka.add_partitions(topic, world.settings.partitions + 1)


@dataclass(frozen=True, slots=True)
class ForeignWrite:
    """Write to the output as another system: without a transaction, or in one that stays open for a while."""

    records: int
    transactional: bool = False
    open_seconds: float = 0.0
    commit: bool = True

    @property
    def fault(self) -> str:
        """Name it."""
        if not self.transactional:
            return "foreign records"
        if self.commit:
            return "foreign transaction"
        return "foreign aborted transaction"

    def perform(self, world: "World", partition: int) -> None:
        """Write."""
        world.foreign_write(
            partition,
            self.records,
            transactional=self.transactional,
            open_seconds=self.open_seconds,
            commit=self.commit,
        )


@dataclass(frozen=True, slots=True)
class TerminateTransactions:
    """Abort the workers' open transactions and fence their producers, as Kafka's `forceTerminateTransaction` does."""

    fault = "transactions terminated"

    def perform(self, world: "World", partition: int) -> None:  # noqa: ARG002 (of all producers)
        """Abort them."""
        for name in world.kafka.coordinator.open_ids():
            if not name.startswith(FOREIGN):
                world.kafka.coordinator.abort(name)


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """Stop the workers for so long that the group's committed offsets expire."""

    fault = "offsets expired"

    def perform(self, world: "World", partition: int) -> None:  # noqa: ARG002 (of all partitions)
        """Stop the workers, and delete the offsets meanwhile."""
        world.expire_offsets(GROUP)


@dataclass(frozen=True, slots=True)
class LeaderAway:
    """Let a partition, or the coordinators (no topic), be without a leader for a while."""

    topic: str | None
    seconds: float

    @property
    def fault(self) -> str:
        """Name it."""
        return "leader away" if self.topic else "coordinator away"

    def perform(self, world: "World", partition: int) -> None:
        """Take it away."""
        world.leader_away(self.topic, partition, self.seconds)


@dataclass(frozen=True, slots=True)
class StopFetching:
    """Let a process's clients fetch nothing more of a partition, without an error.

    The number of the step is that of the worker, the router (`r`) or the controller (`g`).
    """

    topic: str
    partition: int = 0
    process: str = "p"
    fault = "fetching stops"

    def perform(self, world: "World", partition: int) -> None:
        """Let it stop."""
        world.stop_fetching(f"{self.process}{partition}", self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Refuse:
    """Let no client have a right for a while, as without its ACL."""

    right: Right
    name: str
    seconds: float

    @property
    def fault(self) -> str:
        """Name it."""
        return {
            Right.READ: "reading refused",
            Right.WRITE: "writing refused",
            Right.GROUP: "group refused",
            Right.TRANSACT: "transactions refused",
        }[self.right]

    def perform(self, world: "World", partition: int) -> None:  # noqa: ARG002 (of all clients)
        """Refuse it."""
        rights = world.kafka.rights
        rights.refuse(self.right, self.name)
        world.clock.after(self.seconds, lambda: rights.restore(self.right, self.name))
