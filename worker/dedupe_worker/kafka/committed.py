"""The offsets that the stream's consumer group has committed, with their metadata."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from dedupe_crds.clock import Clock
from dedupe_kafka.group_offsets import read_group_offsets
from dedupe_kafka.offset_metadata import split_token

_TIMEOUT_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed input offset with its metadata, if any.

    `take_over` is the token of the worker that committed it, see take_over.py.
    """

    offset: int
    metadata: str | None
    take_over: str | None = None


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
        each.partition: Committed(each.offset, *split_token(each.metadata))
        for each in found
        if each.offset >= 0
    }
