"""Delete records of the repartition topic that this worker has committed.

That topic keeps each record for any time, because retention by time would delete what a stopped worker has not read. So
its workers delete what they have read, as Kafka Streams does with its repartition topics. Invariant: nothing at or
after the committed offset is deleted. A failure stops nothing: the topic grows, and the routers pause at its limit.
"""

from concurrent.futures import Future
from typing import Final, Protocol

from confluent_kafka import KafkaException

from dedupe_crds.clock import Clock
from dedupe_kafka.client import kafka_error
from dedupe_worker.status.degradations import Degradations, Degraded

_TRIM_SECONDS: Final = 30.0


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
        self._due = 0.0

    def run(self, committed: int) -> None:
        """Delete the records before the committed offset, if that is due."""
        self._hear()
        now = self._monotonic()
        if self._asked is None and committed > self._trimmed and now >= self._due:
            self._asked = (
                committed,
                self._topics.delete_before(self._topic, self._partition, committed),
            )
            self._due = now + _TRIM_SECONDS

    def _hear(self) -> None:
        if self._asked is None or not self._asked[1].done():
            return
        offset, future = self._asked
        self._asked = None
        try:
            future.result(0)
        except KafkaException as error:
            named = kafka_error(error, f"deleting what is read of {self._topic}/{self._partition}")
            self._degradations.hold(
                Degraded.REPARTITION_TOPIC_NOT_TRIMMED,
                f"{named.reason}: {named}. The topic grows until the routers pause; the worker needs the ACL DELETE on "
                "it",
            )
        else:
            self._trimmed = offset
            self._degradations.clear(Degraded.REPARTITION_TOPIC_NOT_TRIMMED)
