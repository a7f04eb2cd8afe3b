"""Read several partitions of the output at once, each up to an end that may move.

The worker of a partition that was added reads the old partitions so (recovery/learning.py).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, Message, TopicPartition

from dedupe_crds.clock import Clock
from dedupe_crds.formatting import listed
from dedupe_kafka.client import calling
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.fetch_errors import fetch_error
from dedupe_kafka.fetch_progress import FetchProgress
from dedupe_worker.kafka.consumer import OffsetOutOfRange

_MOST_RECORDS: Final = 10_000
_WAIT_SECONDS: Final = 0.2


class Hidden(Protocol):
    """Tells what open transactions hide, see recovery/hidden_records.py."""

    def are_all(self, positions: Mapping[int, int]) -> bool: ...  # noqa: D102
    def are_gone(self) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring records of one partition."""

    partition: int
    records: list[Message]


class OutputReader:
    """A consumer of partitions of one topic. `positions` are the next offsets to read."""

    def __init__(
        self,
        consumer: Any,  # noqa: ANN401 (a client of the library, or one in memory)
        topic: str,
        clock: Clock,
        hidden: Hidden,
        fetched: FetchProgress,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._clock = clock
        self._hidden = hidden
        self._fetched = fetched
        self._ends: Mapping[int, int] = {}
        self._there: Mapping[int, int] = {}
        self._paused: set[int] = set()
        self._waiting: list[Collection[int]] = []
        self._hiding: dict[int, int] = {}
        self.positions: dict[int, int] = {}

    def seek(
        self,
        positions: Mapping[int, int],
        there: Mapping[int, int],
        order: Sequence[Collection[int]] = (),
    ) -> None:
        """Read these partitions, each from its position on.

        `there` is up to where each has records. `order` are groups of all partitions: one is read once what is there of
        all groups before it is read; without it all are read at once.
        """
        self.positions, self._there = dict(positions), there
        self._waiting = list(order[1:])
        places = [TopicPartition(self._topic, each, at) for each, at in positions.items()]
        with self._reading():
            self._consumer.assign(places)
            if self._waiting:
                self._consumer.pause(self._named(self._later()))

    def stop_at(self, ends: Mapping[int, int]) -> None:
        """Read each partition to its end and no further; until then all are followed."""
        self._ends = ends

    @property
    def at_ends(self) -> bool:
        """Return whether every partition is read to its end."""
        return bool(self._ends) and not self._behind()

    @property
    def unread(self) -> int:
        """Return the number of offsets left."""
        return sum(map(self._left, self.positions))

    def _left(self, partition: int) -> int:
        end = self._ends.get(partition, self._end_of(partition))
        return max(0, end - self.positions[partition])

    def read(self) -> Iterator[Run]:
        """Yield what arrives soon. Raises StreamError.

        Raises BrokerUnavailable if nothing is fetched for long of what is there in a partition, and no open transaction
        hides it.
        """
        self._pause_at_ends()
        self._begin_next()
        began = self._clock.monotonic()
        with self._reading():
            messages = self._consumer.consume(_MOST_RECORDS, _WAIT_SECONDS)
        self._fetched.waited(min(_WAIT_SECONDS, self._clock.monotonic() - began))
        for partition, group in groupby(messages, key=Message.partition):
            records = [each for each in group if self._is_wanted(each)]
            if records:
                yield Run(partition or 0, records)
        self._watch()

    def close(self) -> None:
        """Close the connection."""
        self._hidden.are_gone()
        with self._reading():
            self._consumer.close()

    def _reading(self) -> AbstractContextManager[None]:
        return calling(f"reading {self._topic}")

    def _is_wanted(self, message: Message) -> bool:
        """Return whether a message is a record before its partition's end; move there."""
        partition, offset = message.partition() or 0, message.offset() or 0
        if (error := message.error()) is not None:
            self._handle(message, error)
            return False
        if offset >= self._ends.get(partition, offset + 1):
            self.positions[partition] = max(self.positions[partition], self._ends[partition])
            return False
        self.positions[partition] = offset + 1
        return True

    def _handle(self, message: Message, error: KafkaError) -> None:
        partition, offset = message.partition() or 0, message.offset() or 0
        match error.code():
            case KafkaError._PARTITION_EOF:  # noqa: SLF001 (a public name)
                # After the last record there may be transaction markers, which have offsets too.
                self.positions[partition] = max(self.positions[partition], offset)
            case KafkaError._AUTO_OFFSET_RESET | KafkaError.OFFSET_OUT_OF_RANGE:  # noqa: SLF001
                raise OffsetOutOfRange(
                    f"offset {self.positions[partition]} of {self._topic}/{partition} does not exist: {error.str()}"
                )
            case _ if not error.retriable():
                raise fetch_error(message, error)

    def _behind(self) -> list[int]:
        return [each for each, end in self._ends.items() if self.positions[each] < end]

    def _later(self) -> set[int]:
        """Return the partitions that are not read yet."""
        return {each for group in self._waiting for each in group}

    def _begin_next(self) -> None:
        """Read the next group, once what is there of those before is read."""
        begun = self.positions.keys() - self._later()
        if self._waiting and all(self.positions[each] >= self._end_there(each) for each in begun):
            with self._reading():
                self._consumer.resume(self._named(set(self._waiting.pop(0)) - self._paused))

    def _end_there(self, partition: int) -> int:
        there = self._there[partition]
        return min(there, self._ends.get(partition, there))

    def _named(self, partitions: Collection[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, each) for each in sorted(partitions)]

    def _pause_at_ends(self) -> None:
        done = {each for each, end in self._ends.items() if self.positions[each] >= end}
        if new := done - self._paused:
            with self._reading():
                self._consumer.pause(self._named(new))
            self._paused |= new

    def _watch(self) -> None:
        read = self.positions.keys() - self._later()
        left = {each: self.positions[each] for each in read if self._left(each)}
        self._fetched.follow({(self._topic, each): at for each, at in left.items()})
        if any(left.get(each) != at for each, at in self._hiding.items()):
            self._hiding.clear()
            self._hidden.are_gone()
        starved = {each: left[each] for _, each in self._fetched.starved}
        if not starved:
            return
        if not self._hidden.are_all(starved):
            places = listed([f"{self._topic}/{each}" for each in sorted(starved)])
            raise BrokerUnavailable(
                f"nothing of {places} is fetched, although {sum(map(self._left, starved))} offsets are left; "
                "connecting again"
            )
        self._hiding |= starved
        for each in starved:  # asked again after as long
            self._fetched.begin_again((self._topic, each))

    def _end_of(self, partition: int) -> int:
        where = TopicPartition(self._topic, partition)
        with self._reading():
            watermarks = self._consumer.get_watermark_offsets(where, cached=True)
        # Not known before the first fetch, which may be after the first reads.
        return watermarks[1] if watermarks and watermarks[1] >= 0 else self._there[partition]
