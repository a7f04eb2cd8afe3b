"""Records for other topics than the output: input records, and the worker's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import Message

from dedupe_ids.batch import Header


@dataclass(frozen=True, slots=True)
class SideRecord:
    """A record about output records, for a side topic; timestamp 0 means now."""

    topic: str
    key: bytes | None
    value: bytes
    timestamp_ms: int = 0


class Routed(NamedTuple):
    """An input record for this or a named `partition`, with `headers` added."""

    topic: str
    record: Message
    headers: Sequence[Header]
    partition: int | None = None
