"""The input partitions that a router owns: their offsets, and their lag.

`InputReader` keeps them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from dedupe_crds.status.router import RouterInput
from dedupe_kafka.offsets import Place


@dataclass(slots=True)
class Owned:
    """A partition of this router: its first offset, the next, the committed one.

    `epoch` is the one by which what is committed was routed.
    """

    start: int
    next_offset: int
    committed: int
    topic_id: str
    epoch: int
    waits: bool = False


def show_inputs(owned: Mapping[Place, Owned], consumer: Consumer) -> list[RouterInput]:
    """Return the partitions of each topic, with their lag if it is known yet."""
    lags: dict[str, int | None] = {}
    numbers: dict[str, list[int]] = {}
    for (topic, number), at in sorted(owned.items()):
        numbers.setdefault(topic, []).append(number)
        before, lag = lags.get(topic, 0), _lag(end_of(consumer, (topic, number)), at)
        lags[topic] = None if before is None or lag is None else before + lag
    return [
        RouterInput(topic=topic, partitions=numbers[topic], lag_messages=lags[topic])
        for topic in numbers
    ]


def end_of(consumer: Consumer, place: Place) -> int | None:
    """Return the end of a partition as of the last fetch, None before it.

    It is after the records of open transactions.
    """
    watermarks = consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
    return watermarks[1] if watermarks and watermarks[1] >= 0 else None


def _lag(end: int | None, at: Owned) -> int | None:
    return None if end is None else max(0, end - max(at.committed, 0))
