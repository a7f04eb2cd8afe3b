"""Bound an audit to a part of the input: since a time, or by offsets.

The command line makes the bounds, and `ranges` applies them. The output is always read from its begin, because an id
that came before the bound makes a repeat of one after it.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime

from confluent_kafka import Consumer, KafkaException, TopicPartition

from dedupe_kafka.client import calling, made, reading_config
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import RequestRefused

_SECONDS = 20.0
_RANGE = re.compile(r"(?:(?P<topic>[\w.-]+)/)?(?P<partition>\d+):(?P<low>\d*)-(?P<end>\d*)")

Span = tuple[int, int | None]
"""The first offset, and the one before which the span ends."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The part of the input to judge. With `spans`, only their partitions are judged.

    A key of `spans` is a topic, None if there is only one, and a partition.
    """

    since: datetime | None = None
    spans: Mapping[tuple[str | None, int], Span] = field(default_factory=dict)

    def first_offsets(
        self, connection: KafkaConnection, raw: Sequence[TopicOffsets]
    ) -> list[TopicOffsets]:
        """Return the inputs from where they are judged.

        Raises:
            RequestRefused: a span is of a partition that does not exist.
            BrokerUnavailable: Kafka does not answer.
        """
        if self.since is not None:
            ms = int(self.since.timestamp() * 1000)
            raw = [_since(connection, each, ms) for each in raw]
        if not self.spans:
            return list(raw)
        spans = self._by_place(raw)
        return [
            replace(
                each,
                lows={
                    number: min(max(low, spans.get((each.topic, number), (end, None))[0]), end)
                    for number, low, end in (
                        (number, low, each.ends[number]) for number, low in each.lows.items()
                    )
                },
            )
            for each in raw
        ]

    def last_offsets(
        self, raw: Sequence[TopicOffsets], judged_before: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], int]:
        """Return the offsets from which a record is not judged."""
        ends = {place: end for place, (_, end) in self._by_place(raw).items() if end is not None}
        return {place: min(at, ends.get(place, at)) for place, at in judged_before.items()}

    def _by_place(self, raw: Sequence[TopicOffsets]) -> dict[tuple[str, int], Span]:
        found = {}
        for (topic, partition), span in self.spans.items():
            of = [each for each in raw if topic in {None, each.topic} and partition in each.ends]
            if len(of) != 1:
                names = ", ".join(each.topic for each in raw)
                raise RequestRefused(
                    f"--offsets {partition}: {'no' if not of else 'more than one'} input has that partition "
                    f"({names}); write TOPIC/PARTITION:FROM-TO"
                )
            found[of[0].topic, partition] = span
        return found


def parse_span(text: str) -> tuple[tuple[str | None, int], Span]:
    """Read PARTITION:FROM-TO, or TOPIC/PARTITION:FROM-TO; FROM and TO may be absent.

    >>> parse_span("orders/3:100-")
    (('orders', 3), (100, None))

    Raises:
        ValueError: it is not of that form.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not of the form PARTITION:FROM-TO")
    low, end = int(match["low"] or 0), int(match["end"]) if match["end"] else None
    if end is not None and end <= low:
        raise ValueError(f"{text!r} has no offset: TO is the offset after the last one")
    return (match["topic"], int(match["partition"])), (low, end)


def _since(connection: KafkaConnection, offsets: TopicOffsets, ms: int) -> TopicOffsets:
    """Return the offsets from the first record with this timestamp or a later one."""
    config = reading_config(connection.bootstrap_servers, connection.properties)
    consumer = made(Consumer, {**config, "group.id": "dedupestream-audit", "log_level": 0})
    wanted = [TopicPartition(offsets.topic, number, ms) for number in offsets.lows]
    with calling(f"finding a time in {offsets.topic}"), closing(consumer):
        found = consumer.offsets_for_times(wanted, timeout=_SECONDS)
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
    at = {each.partition: each.offset for each in found}
    return replace(
        offsets,
        lows={
            # Below 0 means that no record is so new.
            number: min(max(low, at[number]), offsets.ends[number])
            if at[number] >= 0
            else offsets.ends[number]
            for number, low in offsets.lows.items()
        },
    )
