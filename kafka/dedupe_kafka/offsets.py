"""Offset ranges of partitions. `Cluster` and the worker read them from Kafka.

A `read_committed` consumer can read an offset range: `low` is the first offset that is retained, `end` the last stable
one. Offsets have gaps (transaction markers, aborted records), so a difference of offsets is no count of records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dedupe_kafka.errors import StreamError

Place = tuple[str, int]
"""A topic and the number of a partition of it."""


class LastRead(NamedTuple):
    """The offset after the last record that was read, and its leader epoch.

    Offset and epoch name one history of a partition: after brokers have lost a tail, another leader writes other
    records at the same offsets, in a later epoch. A negative epoch is unknown.
    """

    end: int = -1
    epoch: int = -1

    @property
    def is_known(self) -> bool:
        """Return whether a broker can be asked for it."""
        return self.epoch >= 0


NOTHING_READ: Final = LastRead()


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of one partition, from `low` to before `end`."""

    low: int
    end: int

    @property
    def count(self) -> int:
        """Return the number of offsets, an upper bound of the number of records."""
        return self.end - self.low


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """A topic's UUID and, by partition number, the bounds of its offset ranges.

    A topic that was deleted and created again has another `id`. `failed` has the partitions that can't be read, and
    why; only `Cluster.offsets_of` fills it.
    """

    topic: str
    id: str
    lows: dict[int, int]
    ends: dict[int, int]
    failed: Mapping[int, StreamError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState(OffsetRange):
    """The offset range of an output partition, and the UUIDs of both topics.

    The operator checks by it whether a copy of a store is usable. `earlier_inputs` are those of the topic that the
    stream has read before it had routers.
    """

    input_topic_id: str
    output_topic_id: str
    earlier_inputs: frozenset[str] = frozenset()
