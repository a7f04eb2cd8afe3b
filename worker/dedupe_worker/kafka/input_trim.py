"""Delete records of the repartition topic that this worker has committed.

That topic keeps each record for any time, because retention by time would delete what a stopped worker has not read. So
its workers delete what they have read, as Kafka Streams does with its repartition topics. A failure stops nothing: the
topic grows, and the routers pause at its limit.

Invariants:

- Nothing at or after an offset that the consumer group has committed is deleted. Each start reads from there.
- Nothing of a topic that was created again is deleted. Kafka deletes by name, so it is asked only just after the topic
  was described.
"""

from concurrent.futures import Future
from typing import Final, Protocol

from dedupe_crds.clock import Clock
from dedupe_kafka.client import calling
from dedupe_kafka.errors import NotAuthorized, StreamError
from dedupe_worker.status.degradations import Degradations, Degraded

_TRIM_SECONDS: Final = 30.0
# A session that ends at once shall not ask for anything, and one that ends again and again shall.
_FIRST_SECONDS: Final = 10.0


class Deleter(Protocol):
    """The part of `Topics` that this needs."""

    def delete_before(self, name: str, partition: int, offset: int) -> "Future[object]": ...  # noqa: D102


class InputTrim:
    """Trims one partition, without ever waiting for an answer."""

    def __init__(
        self,
        topics: Deleter,
        topic: str,
        partition: int,
        *,
        clock: Clock,
        degradations: Degradations,
    ) -> None:
        self._topics = topics
        self._topic = topic
        self._partition = partition
        self._monotonic = clock.monotonic
        self._degradations = degradations
        self._trimmed = 0
        self._asked: tuple[int, Future[object]] | None = None
        self._due = self._monotonic() + _FIRST_SECONDS

    def run(self, committed: int | None, *, is_same: bool) -> None:
        """Delete the records before the committed offset, if that is due.

        `committed` is None if this session does not know it. `is_same`: the topic was described just now, and is the
        one that the offset is of.
        """
        self._hear()
        now = self._monotonic()
        if self._asked or not is_same or now < self._due or (committed or 0) <= self._trimmed:
            return
        self._due = now + _TRIM_SECONDS
        offset = committed or 0
        try:
            answer = self._topics.delete_before(self._topic, self._partition, offset)
        except StreamError as error:
            self._report(error)
        else:
            self._asked = offset, answer

    def _hear(self) -> None:
        if self._asked is None or not self._asked[1].done():
            return
        offset, answer = self._asked
        self._asked = None
        try:
            with calling(f"deleting what is read of {self._topic}/{self._partition}"):
                answer.result(0)
        except StreamError as error:
            self._report(error)
        else:
            self._trimmed = offset
            self._degradations.clear(Degraded.REPARTITION_TOPIC_NOT_TRIMMED)

    def _report(self, error: StreamError) -> None:
        lacks_right = isinstance(error, NotAuthorized)
        remedy = f"grant the ACL DELETE on {self._topic}; " if lacks_right else ""
        self._degradations.hold(
            Degraded.REPARTITION_TOPIC_NOT_TRIMMED,
            f"{error.reason}: {error}. The topic grows until the routers pause; {remedy}the worker tries again",
        )
