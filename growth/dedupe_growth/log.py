"""Read the epoch log.

Routers poll it between two batches, workers and the controller read it to its end. A reader may be behind: the
protocol allows it (docs/decisions/0034). Invariant: a reader never forgets an entry. It refuses a log that has lost one
that it knows, or has another one in its place (docs/decisions/0055).
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from threading import Event
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from dedupe_crds.clock import Clock
from dedupe_crds.spec.stream import DedupeStream
from dedupe_growth.entries import EpochLogUnreadable, Record, decode_entry
from dedupe_growth.epochs import Epochs
from dedupe_kafka.client import calling, kafka_error, made
from dedupe_kafka.client_config import consumer_config
from dedupe_kafka.epochs_topic import epochs_topic
from dedupe_kafka.errors import BrokerUnavailable, Stopped, StreamError
from dedupe_kafka.fetch_errors import before_corrupt
from dedupe_kafka.fetch_progress import FetchProgress

_READ_SECONDS: Final = 30.0
_SLICE_SECONDS: Final = 0.05
# Not sooner: a broker may not know yet that a topic was created.
_ABSENT_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 2.0
# More between two polls is time in which the process was busy or stopped.
_LONGEST_TURN_SECONDS: Final = 1.0
_AT_ONCE: Final = 1_000
_QUEUE_BYTES: Final = 1 << 20
_ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001 (public names)
_NAMED_AT_ONCE: Final = _ABSENT | {KafkaError.TOPIC_AUTHORIZATION_FAILED}
_OUT_OF_RANGE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001 (public names)
)

NO_ENTRY: Final = (
    "the epoch log has no entry: the operator or `dedupe run` writes the first one; if it had some, restore its topic "
    "from a copy"
)


class EpochLogMissing(StreamError):
    """The epoch log does not exist, or has no entry yet."""

    retriable = True


class EpochReader:
    """A consumer of the epoch log. `epochs` is what it knows: `known` at first."""

    def __init__(
        self,
        consumer: Any,  # noqa: ANN401 (a client of the library, or one in memory)
        topic: str,
        clock: Clock,
        known: Epochs | None = None,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._place = topic, 0
        self._clock = clock
        self._next_offset = self._read_to = 0
        self._assigned = False
        self._progress = FetchProgress()
        self._polled_at = 0.0
        self._entries = 0
        self.epochs = known or Epochs()

    def read_to_end(self, stop: Event | None = None) -> Epochs:
        """Read what is in the log now, from its first entry on.

        Raises EpochLogMissing, EpochLogUnreadable, BrokerUnavailable, and Stopped once `stop` is set.
        """
        deadline = self._clock.deadline(_READ_SECONDS, stop or Event())
        silent = self._clock.deadline(_ABSENT_SECONDS)
        self._assign()
        while not self._take(self._consume(_SLICE_SECONDS)):
            if silent.expired:
                self._require_topic()
            if deadline.pause(0):
                continue
            if deadline.expired:
                raise BrokerUnavailable(
                    f"{self._topic} was not read to its end in {_READ_SECONDS:.0f} s"
                )
            raise Stopped(f"reading {self._topic}")
        if self._entries < self.epochs.entries:
            raise self._lost(self._entries, "nothing")
        return self.epochs

    def poll(self) -> Epochs:
        """Take what has arrived since; wait for nothing. Raises as `read_to_end`.

        Raises BrokerUnavailable also if the client no longer fetches what is there.
        """
        if not self._assigned:
            self._assign()
        self._take(self._consume(0.0))
        self._check_fetches()
        return self.epochs

    def close(self) -> None:
        """Close the connection."""
        with self._reading():
            self._consumer.close()

    def _reading(self) -> AbstractContextManager[None]:
        return calling(f"reading {self._topic}")

    def _assign(self) -> None:
        # Again for each read: only so the end that is reported is not older than this call. From the beginning: only so
        # a lost tail is noticed whatever has come in its place. The log is small.
        self._entries = self._next_offset = self._read_to = 0
        with self._reading():
            self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        self._assigned = True
        self._progress.begin_again(self._place)
        self._polled_at = self._clock.monotonic()

    def _check_fetches(self) -> None:
        now = self._clock.monotonic()
        self._progress.waited(min(now - self._polled_at, _LONGEST_TURN_SECONDS))
        self._polled_at = now
        self._progress.follow({self._place: self._read_to})
        if not self._progress.starved:
            return
        with self._reading():
            try:
                _, end = self._consumer.get_watermark_offsets(
                    TopicPartition(*self._place), _LOOK_SECONDS
                )
            except KafkaException:  # without a leader there is nothing to fetch
                self._progress.begin_again(self._place)
            else:
                self._progress.check(self._place, self._read_to, end)

    def _consume(self, seconds: float) -> list[Message]:
        with self._reading():
            found: list[Message] = self._consumer.consume(_AT_ONCE, seconds)
        return found

    def _require_topic(self) -> None:
        """Raise EpochLogMissing without the topic, NotAuthorized if it is hidden.

        A consumer gets no error in place of records then, and its callback one after 30 s (librdkafka 2.16).
        """
        with self._reading():
            try:
                found = self._consumer.list_topics(self._topic, _LOOK_SECONDS)
            except KafkaException:
                return  # no answer: the reader's deadline names it
        error = found.topics[self._topic].error
        if error is not None and error.code() in _NAMED_AT_ONCE:
            self._is_end(error)

    def _take(self, messages: list[Message]) -> bool:
        """Take entries; return whether the end was reached."""
        at_end = False
        messages, corrupt = before_corrupt(messages)
        for message in messages:
            if (error := message.error()) is not None:
                if self._is_end(error):
                    at_end = True
                    # After the last entry there may be transaction markers, which have offsets too.
                    self._read_to = max(self._read_to, message.offset() or 0)
                continue
            self._take_entry(Record(message.key() or b"", message.value() or b""))
            self._next_offset = self._read_to = (message.offset() or 0) + 1
        if corrupt is not None:
            raise corrupt
        return at_end

    def _take_entry(self, record: Record) -> None:
        number, known = self._entries, self.epochs
        entry = decode_entry(number, record)
        if number == known.entries:
            self.epochs = known.followed_by(entry)
        elif entry != known.log[number]:
            raise self._lost(number, repr(entry))
        self._entries += 1

    def _lost(self, number: int, found: str) -> EpochLogUnreadable:
        return EpochLogUnreadable(
            f"topic {self._topic} has lost entry {number}, {self.epochs.log[number]!r}, and has {found} in its place: "
            "restore it from a copy"
        )

    def _is_end(self, error: KafkaError) -> bool:
        """Return whether an error says that the end was reached; raise what is one."""
        code = error.code()
        if code in _ABSENT:
            raise EpochLogMissing(
                f"topic {self._topic} does not exist: the operator or `dedupe run` creates it; if it was deleted, "
                "restore it from a copy, because it says how many partitions the stream has had"
            )
        if code in _OUT_OF_RANGE:
            raise EpochLogUnreadable(
                f"topic {self._topic} lacks its entries from offset {self._next_offset} on: restore it from a copy"
            )
        if code != KafkaError._PARTITION_EOF and not error.retriable():  # noqa: SLF001 (a public name)
            raise kafka_error(error, f"reading {self._topic}")
        return code == KafkaError._PARTITION_EOF  # noqa: SLF001


def open_epochs(
    make_consumer: Callable[[dict[str, Any]], Any],
    stream: DedupeStream,
    properties: Mapping[str, str],
    clock: Clock,
    known: Epochs | None = None,
    **options: Any,  # noqa: ANN401 (librdkafka's own)
) -> EpochReader:
    """Make a reader of a stream's epoch log, which must have what is known of it.

    Raises InvalidConfig.
    """
    config = consumer_config(
        stream.spec.kafka.bootstrap_servers,
        properties,
        group=stream.consumer_group,
        queue_bytes=_QUEUE_BYTES,
    )
    topic = epochs_topic(stream.spec.output.topic)
    consumer = made(make_consumer, {**config, **options})
    return EpochReader(consumer, topic, clock, known)
