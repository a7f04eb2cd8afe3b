"""The output without transactions: for brokers that have none.

What it does without: records become visible one by one, and the input offset after them. A crash in between has the
next session read those records again; what of them came out is in the output, from which the store learns before
the first new record, and is dropped (see in_doubt.py). So no record is lost, and one is passed on twice only where the
store says of a record that it was passed on itself (see `judge`), where the client sends one again that the broker has,
or where an older worker still runs: nothing fences it.
"""

import time
from threading import Event
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from dedupe_kafka.client import kafka_error, made
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_worker.kafka.consumer import Source
from dedupe_worker.kafka.producer import PartitionOutput

_ACKNOWLEDGED_SECONDS: Final = 60.0
_SLICE_SECONDS: Final = 1.0


class AcknowledgedOutput(PartitionOutput):
    """`commit` returns when all in-sync replicas have every record and the input offset is committed."""

    def __init__(self, config: dict[str, Any], topic: str, partition: int) -> None:
        self._refused: KafkaError | None = None
        # Of every record, as nothing else tells that one was not taken.
        producer = made(Producer, {**config, "on_delivery": self._on_delivery})
        super().__init__(producer, topic, partition)

    def fence(self, stop: Event) -> None:
        """Nothing: without transactions a broker knows no owner of a partition."""

    def commit(self, next_offset: int, source: Source) -> None:
        """Wait until every record is acknowledged, then commit the input offset."""
        deadline = time.monotonic() + _ACKNOWLEDGED_SECONDS
        while self._producer.flush(_SLICE_SECONDS):
            self._check()
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"{self._topic}/{self._partition}: records are not acknowledged after "
                    f"{_ACKNOWLEDGED_SECONDS:.0f} s"
                )
        self._check()
        self.mark(next_offset, source)

    def mark(self, next_offset: int, source: Source) -> None:
        """Commit an input offset, with a note of how far the output is of input before it."""
        source.commit(next_offset, self._note_of(self._position))

    def abort(self) -> None:
        """Send nothing more of what was begun; what has been sent stays."""
        self._producer.purge()

    def _report(self, error: KafkaError | None, message: Message) -> None:
        self._on_delivery(error, message)
        super()._report(error, message)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._refused is None:
            self._refused = error

    def _check(self) -> None:
        if self._refused is not None:
            raise kafka_error(
                KafkaException(self._refused), f"writing {self._topic}/{self._partition}"
            )
