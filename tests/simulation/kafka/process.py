"""A process as its clients see it: the cluster, and the hook around each call."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaException

from tests.simulation.kafka.calls import Call, Hook, Moment

if TYPE_CHECKING:
    from tests.simulation.kafka.cluster import SimKafka
    from tests.simulation.kafka.members import Member

T = TypeVar("T")


class Process:
    """One process's connection to the cluster."""

    def __init__(self, cluster: "SimKafka", name: str, hook: Hook) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        self.name = name
        self._hook = hook
        self._calls: dict[tuple[str, str], tuple[Call, Call]] = {}
        self._members: list[Member] = []

    def request(self, client: str, name: str, function: Callable[[], T]) -> T:
        """Make a call that needs an answer of the cluster.

        A KafkaException of the hook is the call's.
        """
        before, after = self._moments(client, name)
        self._hook(before)
        self._beat()
        self.cluster.coordinator.expire()
        result = function()
        self._hook(after)
        return result

    def local(self, client: str, name: str, function: Callable[[], T]) -> T:
        """Make a call that the library serves without a broker: a KafkaException of the hook is ignored."""
        before, after = self._moments(client, name)
        with suppress(KafkaException):
            self._hook(before)
        self._beat()
        result = function()
        with suppress(KafkaException):
            self._hook(after)
        return result

    def serve(
        self, client: str, name: str, function: Callable[[], T], nothing: T, deadline: float
    ) -> T:
        """Make a call that serves what has arrived, and so raises no error of a request.

        A KafkaException of the hook before it means that nothing arrives: the call waits, and returns `nothing`. After
        it there is no answer to lose.
        """
        before, after = self._moments(client, name)
        try:
            self._hook(before)
        except KafkaException:
            self.wait_until(deadline, deadline)
            return nothing
        self._beat()
        result = function()
        with suppress(KafkaException):
            self._hook(after)
        return result

    def wait_request(self) -> None:
        """Let the time of one request pass."""
        self.clock.advance(self.cluster.request_seconds)
        self._beat()

    def wait_until(self, moment: float, deadline: float) -> bool:
        """Let time pass until a moment, not past the deadline; return whether it is reached."""
        now = self.clock.monotonic()
        if now < moment:
            self.clock.advance(max(0.0, min(moment, deadline) - now))
            self._beat()
        return self.clock.monotonic() >= moment

    # -- groups ----------------------------------------------------------------------------------

    def watch(self, member: "Member") -> None:
        """Send heartbeats of a member from now on, as long as this process runs."""
        if member not in self._members:
            self._members.append(member)

    def forget(self, member: "Member") -> None:
        """Send no more heartbeats of a member."""
        self._members = [each for each in self._members if each is not member]

    def _beat(self) -> None:
        """Send heartbeats, unless the group has removed a member while this process stood still."""
        if self._members:
            self.cluster.members.expire()
            now = self.clock.monotonic()
            for each in self._members:
                each.heard_at = now

    def _moments(self, client: str, name: str) -> tuple[Call, Call]:
        calls = self._calls.get((client, name))
        if calls is None:
            calls = (
                Call(self.name, client, name, Moment.BEFORE),
                Call(self.name, client, name, Moment.AFTER),
            )
            self._calls[client, name] = calls
        return calls
