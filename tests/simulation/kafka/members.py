"""The members of consumer groups, as a broker's coordinator keeps them: generations, rebalances, time-outs.

The classic protocol, with the cooperative assignor. A rebalance waits until every member has joined again; one that is
silent for its session time-out is removed. Then the generation is the next one, and the leader decides on who reads
what. Invariant: a partition is given to a member only once no member of the generation has it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import KafkaError

from tests.simulation.kafka.assignor import Place, assign

if TYPE_CHECKING:
    from tests.simulation.kafka.transactions import Coordinator

_REBALANCE_SECONDS: Final = 300.0
"""max.poll.interval.ms: how long a rebalance waits for a member that is alive."""


class GroupMetadata(NamedTuple):
    """The sender of a commit, as it says. Without a member id the generation is -1."""

    group: str
    generation: int = -1
    member: str = ""


class State(Enum):
    """The states of a group, as Kafka names them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(slots=True, eq=False)
class Member:
    """A member: its topics, and the partitions that it had when it joined."""

    id: str
    session_seconds: float
    topics: tuple[str, ...] = ()
    owned: tuple[Place, ...] = ()
    heard_at: float = 0.0
    waits: bool = False
    """It has joined, and waits for the others."""
    assignment: list[Place] | None = None


@dataclass(slots=True)
class Group:
    """The members of one group, in the order in which they came."""

    state: State = State.EMPTY
    generation: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    prepares_since: float = 0.0


class Members:
    """The members of all groups."""

    def __init__(self, coordinator: "Coordinator", monotonic: Callable[[], float]) -> None:
        self._coordinator = coordinator
        self._monotonic = monotonic
        self._groups: dict[str, Group] = {}
        self._joined = 0

    def group(self, name: str) -> Group:
        """Return a group, which may be empty."""
        return self._groups.setdefault(name, Group())

    def expire(self) -> None:
        """Remove the members that are silent for too long. A coordinator that was away counts from its return."""
        now, back_at = self._monotonic(), self._coordinator.back_at
        if now < back_at:
            return
        for group in self._groups.values():
            late = (
                group.state is State.PREPARING and now - group.prepares_since > _REBALANCE_SECONDS
            )
            gone = [
                each
                for each in group.members.values()
                if not each.waits
                and (late or now - max(each.heard_at, back_at) > each.session_seconds)
            ]
            for member in gone:
                self._remove(group, member)

    def new_member(self, session_seconds: float) -> Member:
        """Return a member with a new id, which joins nothing yet."""
        self._joined += 1
        return Member(f"member-{self._joined}", session_seconds)

    def join(
        self, name: str, member: Member, topics: tuple[str, ...], owned: tuple[Place, ...]
    ) -> None:
        """Let a member join, or join again: a rebalance begins, or goes on."""
        self.expire()
        group = self.group(name)
        group.members[member.id] = member
        member.topics, member.owned, member.waits = topics, owned, True
        member.heard_at = self._monotonic()
        self._prepare(group)

    def sync(
        self, name: str, member: Member, partitions: Callable[[str], int]
    ) -> list[Place] | None:
        """Return the member's assignment; None if the leader, the first member, has not sent it yet."""
        group = self.group(name)
        if group.state is State.COMPLETING and next(iter(group.members.values())) is member:
            counts = {
                topic: partitions(topic) for each in group.members.values() for topic in each.topics
            }
            found = assign(
                {each.id: (each.topics, each.owned) for each in group.members.values()}, counts
            )
            for each in group.members.values():
                each.assignment = found[each.id]
            group.state = State.STABLE
        return member.assignment

    def has(self, name: str, member: Member) -> bool:
        """Return whether a member is in its group."""
        self.expire()
        return member.id in self.group(name).members

    def leave(self, name: str, member: Member) -> None:
        """Let a member go."""
        self.expire()
        group = self.group(name)
        if member.id in group.members:
            self._remove(group, member)

    def refusal(self, sender: GroupMetadata, *, transactional: bool) -> int | None:
        """Return why a commit of offsets is refused; None if it is not.

        One without a member id is taken from anybody: in a transaction always, else if the group has no members.
        """
        self.expire()
        group = self.group(sender.group)
        if sender.generation < 0 and not sender.member:
            free = transactional or group.state is State.EMPTY
            return None if free else KafkaError.UNKNOWN_MEMBER_ID
        if sender.member not in group.members:
            return KafkaError.UNKNOWN_MEMBER_ID
        if sender.generation != group.generation:
            return KafkaError.ILLEGAL_GENERATION
        if group.state is State.COMPLETING and not transactional:
            return KafkaError.REBALANCE_IN_PROGRESS
        return None

    def assignments(self, name: str) -> Mapping[str, list[Place]]:
        """Return the assignment of each member of the present generation, for tests."""
        return {each.id: each.assignment or [] for each in self.group(name).members.values()}

    def _remove(self, group: Group, member: Member) -> None:
        del group.members[member.id]
        member.waits = False
        self._prepare(group)

    def _prepare(self, group: Group) -> None:
        """Begin a rebalance, and complete it if all members wait for that."""
        now = self._monotonic()
        if group.state is not State.PREPARING:
            group.state, group.prepares_since = State.PREPARING, now
        if not all(each.waits for each in group.members.values()):
            return
        group.generation += 1
        group.state = State.COMPLETING if group.members else State.EMPTY
        for each in group.members.values():
            each.waits, each.assignment, each.heard_at = False, None, now
