"""Append to the epoch log, as the only one who does.

The controller calls it. Invariant: an entry is appended only to a log whose entries this writer knows: it fences every
other writer first, and then reads the log to its end.
"""

from typing import Any, Final

from confluent_kafka import KafkaException

from dedupe_crds.clock import Clock
from dedupe_growth.entries import Entry, encode_entry
from dedupe_growth.epochs import Epochs
from dedupe_growth.log import EpochReader
from dedupe_kafka.client import calling, kafka_error
from dedupe_kafka.errors import BrokerUnavailable, Fenced, StreamError

TRANSACTION_SECONDS: Final = 10.0
"""The age at which Kafka aborts a transaction of this writer."""

_CALL_SECONDS: Final = 7.0
_INIT_SECONDS: Final = 30.0


class EpochLogMoved(StreamError):
    """Another controller has written to the epoch log; its entries count."""

    retriable = True


class EpochWriter:
    """A transactional producer with the id of the stream's controller.

    It appends one entry.
    """

    def __init__(self, producer: Any, reader: EpochReader, topic: str, clock: Clock) -> None:  # noqa: ANN401 (a client of the library, or one in memory)
        self._producer = producer
        self._reader = reader
        self._topic = topic
        self._clock = clock

    def append(self, known: Epochs, entry: Entry) -> Epochs:
        """Append an entry to the log whose entries are `known`; return what all say.

        Raises EpochLogMoved if the log has more, and other errors of Kafka.
        """
        deadline = self._clock.deadline(_INIT_SECONDS)
        with calling(f"writing to {self._topic}", _named):
            self._reader.poll()  # so that it connects while others are fenced
            self._producer.init_transactions(deadline.remaining())
            found = self._reader.read_to_end()
            if found.entries != known.entries:
                raise EpochLogMoved(
                    f"{self._topic} has {found.entries} entries, and {known.entries} were known"
                )
            record = encode_entry(known.entries, entry)
            self._producer.begin_transaction()
            self._producer.produce(self._topic, record.value, record.key, 0)
            self._commit()
        # Not read again: a commit is answered before readers see what was committed.
        return found.followed_by(entry)

    def _commit(self) -> None:
        deadline = self._clock.deadline(_CALL_SECONDS)
        while True:
            try:
                self._producer.commit_transaction(1.0)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                if deadline.expired:
                    raise BrokerUnavailable(
                        f"{self._topic}: no answer to a commit; what it was is read from the topic"
                    ) from error
            else:
                return


def _named(error: KafkaException, action: str) -> StreamError:
    named = kafka_error(error, action)
    if isinstance(named, Fenced):
        return EpochLogMoved(f"{named}; another controller of this stream runs")
    return named
