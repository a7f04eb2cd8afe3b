"""Produce without transactions (at-least-once), for brokers that have none.

Records become visible one by one, and the input offset after them. After a crash in between, the next session reads
those records again. Those that are in the output already are read from there before the first new record, and dropped
(see dedup/uncommitted_output.py). So no record is lost, and a record is produced twice only in three cases: the store
holds the same record as the owner of its id (see `make_verdict`), the client sends a record again that the broker has,
or an older worker still runs, because nothing fences it.
"""

from collections.abc import Callable
from threading import Event
from typing import Any, Final

from confluent_kafka import KafkaError, Message

from dedupe_crds.clock import Clock
from dedupe_kafka.client import kafka_error, made
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.kafka.source import Source

_ACKNOWLEDGED_SECONDS: Final = 60.0
_SLICE_SECONDS: Final = 1.0


class NonTransactionalOutput(PartitionOutput):
    """Output whose `commit` waits for acknowledgements, then commits the offset.

    All in-sync replicas have a record that is acknowledged.
    """

    def __init__(
        self,
        config: dict[str, Any],
        topic: str,
        partition: int,
        clock: Clock,
        *,
        make_producer: Callable[[dict[str, Any]], Any],
    ) -> None:
        self._refused: KafkaError | None = None
        # For every record, because nothing else reports that a record was refused.
        producer = made(make_producer, {**config, "on_delivery": self._on_delivery})
        super().__init__(producer, topic, partition, clock)

    def fence(self, stop: Event) -> None:
        """Do nothing: without transactions a broker knows no owner of a partition."""

    def commit(self, next_offset: int, source: Source) -> None:
        """Wait until every record is acknowledged, then commit the input offset."""
        deadline = self._clock.deadline(_ACKNOWLEDGED_SECONDS)
        with self._calling("producing"):
            while self._producer.flush(_SLICE_SECONDS):
                self._check()
                if deadline.expired:
                    raise BrokerUnavailable(
                        f"{self._topic}/{self._partition}: records are not acknowledged after "
                        f"{_ACKNOWLEDGED_SECONDS:.0f} s"
                    )
        self._check()
        self.record_start(next_offset, source, self._metadata_of(self._position))
        self._find_unread(markers=0)

    def record_start(self, next_offset: int, source: Source, metadata: str) -> None:
        """Commit an input offset with its metadata."""
        source.commit(next_offset, metadata)
        self.committed = next_offset

    def abort(self) -> None:
        """Send nothing more; records that were sent stay in the output."""
        with self._calling("aborting"):
            self._producer.purge()

    def _report(self, error: KafkaError | None, message: Message) -> None:
        self._on_delivery(error, message)
        super()._report(error, message)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._refused is None:
            self._refused = error

    def _check(self) -> None:
        if self._refused is not None:
            raise kafka_error(self._refused, f"writing {self._topic}/{self._partition}")
