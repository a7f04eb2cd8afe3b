"""The offsets that the stream's consumer group has committed, with their metadata."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from dedupe_crds.clock import Clock
from dedupe_kafka.group_offsets import read_group_offsets
from dedupe_kafka.offset_metadata import decode_metadata, split_token
from dedupe_kafka.offsets import NOTHING_READ, LastRead

_TIMEOUT_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed input offset with its metadata, if any.

    `take_over` is the token of the worker that committed it, see take_over.py; `epoch` the leader epoch of the last
    record before it, -1 if it is not known.
    """

    offset: int
    metadata: str | None
    take_over: str | None = None
    epoch: int = -1

    @property
    def last_read(self) -> LastRead:
        """Return where the last record before it ends, and its epoch."""
        if self.epoch < 0:
            return NOTHING_READ
        read_end = decode_metadata(self.metadata).read_end
        return LastRead(self.offset if read_end is None else read_end, self.epoch)


def read_committed(
    consumer: Consumer, clock: Clock, topic: str, partitions: Iterable[int]
) -> dict[int, Committed]:
    """Return what the consumer's group has committed, by partition.

    Raises StreamError.
    """
    found = read_group_offsets(
        consumer,
        [TopicPartition(topic, each) for each in partitions],
        timeout_seconds=_TIMEOUT_SECONDS,
        deadline=clock.deadline(_TIMEOUT_SECONDS),
    )
    return {
        each.partition: Committed(each.offset, *split_token(each.metadata), _epoch_of(each))
        for each in found
        if each.offset >= 0
    }


def _epoch_of(found: TopicPartition) -> int:
    return -1 if found.leader_epoch is None else found.leader_epoch
