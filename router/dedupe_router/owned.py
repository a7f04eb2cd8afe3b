"""The input partitions that a router owns: their offsets, and their lag.

`InputReader` keeps them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from dedupe_crds.status.router import RouterInput
from dedupe_kafka.client import kafka_error
from dedupe_kafka.errors import HoldingRecord
from dedupe_kafka.offsets import Place

# Between two attempts at a record that cannot be read.
_AGAIN_SECONDS: Final = 15.0

log = structlog.get_logger()


@dataclass(slots=True)
class Owned:
    """A partition of this router: its first offset, the next, the committed one.

    `epoch` is the one by which what is committed was routed. While it `is_held`, nothing of it is taken
    until `again_at`; `held_by` names the record that nothing passes, also while that is tried again.
    """

    start: int
    next_offset: int
    committed: int
    topic_id: str
    epoch: int
    waits: bool = False
    held_by: HoldingRecord | None = None
    is_held: bool = False
    again_at: float = 0.0

    @property
    def is_read(self) -> bool:
        """Return whether it is read now, or paused with all others."""
        return not (self.waits or self.is_held)


def hold_by(consumer: Consumer, place: Place, at: Owned, error: HoldingRecord, now: float) -> None:
    """Take nothing more of a partition, of which all before this record is taken."""
    if at.held_by is None:
        log.error("partition is held", reason=error.reason, error=str(error))
    at.held_by, at.is_held, at.again_at = error, True, now + _AGAIN_SECONDS
    consumer.pause([TopicPartition(*place)])


def try_again(consumer: Consumer, owned: Mapping[Place, Owned], now: float) -> None:
    """Read held partitions again: a replica may be repaired, or a record deleted."""
    for place, at in owned.items():
        if not at.is_held or now < at.again_at or at.waits:
            continue
        try:
            # The client library is behind the record, or has lost its place.
            consumer.seek(TopicPartition(*place, at.next_offset))
        except KafkaException as error:
            at.again_at = now + _AGAIN_SECONDS
            log.warning("partition stays held", error=str(kafka_error(error, "seeking")))
            continue
        at.is_held = False
        consumer.resume([TopicPartition(*place)])


def behind(owned: Mapping[Place, Owned], consumer: Consumer) -> dict[Place, int]:
    """Return the next offset of each partition that is read, and not at its end."""
    return {
        place: at.next_offset
        for place, at in owned.items()
        if at.is_read and (end_of(consumer, place) or 0) > at.next_offset
    }


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
