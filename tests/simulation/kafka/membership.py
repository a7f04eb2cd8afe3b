"""A subscribed consumer's place in its group: what librdkafka does in the background, and its callbacks.

The background is served at every call of the consumer, where the library has a thread; the callbacks only by `poll` and
`consume`. A member that was removed, or has heard nothing of the coordinator for its session time-out, has lost its
partitions: its member id is empty at once, the callback follows. Invariant: it does not join again before its callbacks
have run.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, TopicPartition

from tests.simulation.kafka.assignor import Place
from tests.simulation.kafka.members import GroupMetadata, Member, State

if TYPE_CHECKING:
    from tests.simulation.kafka.process import Process

Callback = Callable[[Any, list[TopicPartition]], None]

_SESSION_MS: Final = 45_000
_HEARTBEAT_MS: Final = 3_000
_METADATA_MS: Final = 300_000


class Step(Enum):
    """The step that a member is at."""

    OUT = "out"
    """It joins, or joins again, if it has topics."""
    JOINING = "joining"
    SYNCING = "syncing"
    CALLING = "calling"
    """Callbacks wait for `poll`, or run."""
    STEADY = "steady"


class Membership:
    """The membership of one consumer. `owned` is what the group has given to it."""

    def __init__(self, process: "Process", group: str, config: dict[str, Any]) -> None:
        self._process, self._cluster, self._clock = process, process.cluster, process.clock
        self._group = group
        self._session = int(config.get("session.timeout.ms", _SESSION_MS)) / 1000
        self._heartbeat = int(config.get("heartbeat.interval.ms", _HEARTBEAT_MS)) / 1000
        refresh = config.get("topic.metadata.refresh.interval.ms", _METADATA_MS)
        self._refresh = int(refresh) / 1000
        self._member: Member | None = None
        self._generation = -1
        self._step = Step.OUT
        self._topics: tuple[str, ...] = ()
        self._owned: list[Place] = []
        self._calls: list[tuple[str, list[Place]]] = []
        self._joins_again = False
        self._callbacks: dict[str, Callback | None] = {}
        self._counts: dict[str, int] = {}
        self._answered_at = self._heartbeat_at = self._refresh_at = 0.0

    @property
    def is_subscribed(self) -> bool:
        """Return whether it is, or was just now, a member of a group."""
        return bool(self._topics or self._owned or self._member)

    @property
    def metadata(self) -> GroupMetadata:
        """Return what a commit says of its sender."""
        member = "" if self._member is None else self._member.id
        return GroupMetadata(self._group, self._generation, member)

    def subscribe(self, topics: Iterable[str], **callbacks: Callback | None) -> None:
        """Subscribe to these topics; no topics: leave the group."""
        self._topics, self._callbacks = tuple(topics), callbacks or self._callbacks
        if self._step is Step.STEADY:
            gone = [place for place in self._owned if place[0] not in self._topics]
            self._call_then_join([("on_revoke", gone)] if gone else [])

    def serve(self) -> None:
        """Do what the library does in the background."""
        now, away = self._clock.monotonic(), self._cluster.coordinator.back_at
        if now < away:
            if self._member is not None and now - self._answered_at > self._session:
                self._lose()
            return
        self._answered_at = now
        if self._member is not None and now >= self._heartbeat_at:
            self._heartbeat_at = now + self._heartbeat
            if not self._cluster.members.has(self._group, self._member):
                self._lose()
            elif self._state is State.PREPARING and self._step is Step.STEADY:
                self._join()
        due = self._step is Step.STEADY and now >= self._refresh_at
        if (due and self._has_grown()) or (self._step is Step.OUT and self._topics):
            self._join()
        if self._step is Step.JOINING:
            self._await_generation()
        if self._step is Step.SYNCING:
            self._await_assignment()

    def call_back(self, consumer: object) -> None:
        """Run the callbacks that are due. What one raises goes to the caller of `poll`."""
        while self._calls and self._step is Step.CALLING:
            name, places = self._calls.pop(0)
            if name == "on_assign":
                self._owned += places
            else:
                self._owned = [place for place in self._owned if place not in places]
            callback = self._callbacks.get(name)
            if callback is not None:
                callback(consumer, [TopicPartition(*place) for place in places])
            if not self._calls:
                self._called()

    def close(self, consumer: object) -> None:
        """Give up all partitions, with their callback, and leave the group."""
        lost = self._member is None or any(name == "on_lost" for name, _ in self._calls)
        self._topics, self._step = (), Step.CALLING
        self._calls = [("on_lost" if lost else "on_revoke", self._owned)] if self._owned else []
        self.call_back(consumer)
        self._leave()

    # -- how ------------------------------------------------------------------------------------

    @property
    def _state(self) -> State:
        return self._cluster.members.group(self._group).state

    def _join(self) -> None:
        member = self._member or self._cluster.members.new_member(self._session)
        members = self._cluster.members
        self._refresh_at, self._joins_again = self._clock.monotonic() + self._refresh, False
        self._counts = {topic: self._partitions(topic) for topic in self._topics}

        def join() -> None:
            members.join(self._group, member, self._topics, tuple(self._owned))
            self._member, self._step = member, Step.JOINING
            self._process.watch(member)

        try:
            self._process.request("consumer", "join", join)
        except KafkaException:
            return  # the library sends it again

    def _await_generation(self) -> None:
        assert self._member is not None
        if not self._cluster.members.has(self._group, self._member):
            self._lose()
        elif not self._member.waits:
            self._generation = self._cluster.members.group(self._group).generation
            self._step = Step.SYNCING

    def _await_assignment(self) -> None:
        assert self._member is not None
        if not self._cluster.members.has(self._group, self._member):
            self._lose()
            return
        found = self._cluster.members.sync(self._group, self._member, self._partitions)
        if found is None:
            if self._state is State.PREPARING:  # the leader is gone, or another member has come
                self._join()
            return
        added = [place for place in found if place not in self._owned]
        revoked = [place for place in self._owned if place not in found]
        self._step, self._joins_again = Step.CALLING, bool(revoked)
        self._calls = [("on_revoke", revoked)] if revoked else []
        self._calls.append(("on_assign", added))

    def _called(self) -> None:
        """Go on after the last callback."""
        if self._member is None or not self._topics:
            self._leave()
            self._step = Step.OUT
            if self._owned:  # lost while callbacks ran
                self._step, self._calls = Step.CALLING, [("on_lost", list(self._owned))]
        elif self._joins_again:
            self._step = Step.OUT
            self._join()
        else:
            self._step = Step.STEADY

    def _call_then_join(self, calls: list[tuple[str, list[Place]]]) -> None:
        if calls:
            self._step, self._calls, self._joins_again = Step.CALLING, calls, True
            return
        self._step = Step.OUT
        if self._topics:
            self._join()
        else:
            self._leave()

    def _lose(self) -> None:
        """Lose the membership, and the member id, but not the number of the generation."""
        if self._member is not None:
            self._process.forget(self._member)
        self._member = None
        if self._step is not Step.CALLING:
            self._step, self._calls = Step.OUT, []
            if self._owned:
                self._step, self._calls = Step.CALLING, [("on_lost", list(self._owned))]

    def _leave(self) -> None:
        member, self._member = self._member, None
        if member is None:
            return
        self._generation = -1
        self._process.forget(member)
        members = self._cluster.members
        try:
            self._process.request("consumer", "leave", lambda: members.leave(self._group, member))
        except KafkaException:
            return  # the group waits for its session time-out

    def _has_grown(self) -> bool:
        self._refresh_at = self._clock.monotonic() + self._refresh
        return self._counts != {topic: self._partitions(topic) for topic in self._topics}

    def _partitions(self, topic: str) -> int:
        found = self._cluster.topics.find(topic)
        return len(found.logs) if found else 0
