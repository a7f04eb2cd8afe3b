"""The records of a topic to read, and the offsets between which.

Spark's executors import it, so it needs no more than they have: see `dedupe_pipeline.package`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from dedupe_filters.values import FilterSource, Wanted
from dedupe_kafka.client import Properties, check_servers
from dedupe_kafka.errors import RecordsLost, TopicMissing
from dedupe_kafka.offsets import TopicOffsets

GAP_OFFSETS: Final = 100
"""A gap of so few offsets between two ranges is fetched, not skipped: Kafka fetches whole batches, often larger."""

Place = Literal["earliest", "latest"] | Mapping[int, int]
"""The start or the end of a read: partitions without an offset are not read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The records of a topic to read.

    `properties` are the user's client properties and may hold secrets. Without `wanted` all records are read. `source`
    is the source of their values, by default that of the newest filters.
    """

    bootstrap_servers: str
    topic: str
    wanted: Wanted | None = None
    source: FilterSource | None = None
    gap_offsets: int = GAP_OFFSETS
    properties: Properties = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Raise InvalidConfig for bootstrap servers of another form than host:port."""
        check_servers(self.bootstrap_servers)


def offsets_at(place: Place, topic_offsets: TopicOffsets, topic: str) -> dict[int, int]:
    """Return the offsets of a place by partition; given offsets may be beyond the end.

    Raises TopicMissing for a partition that does not exist.
    """
    match place:
        case "earliest":
            return dict(topic_offsets.lows)
        case "latest":
            return dict(topic_offsets.ends)
        case offsets:
            if absent := sorted(offsets.keys() - topic_offsets.ends.keys()):
                raise TopicMissing(
                    f"Topic {topic} has no partition {absent[0]}: it has {len(topic_offsets.ends)}, numbered from 0."
                )
            return dict(offsets)


def check_reached(read_to: Mapping[int, int], topic_offsets: TopicOffsets, topic: str) -> None:
    """Raise RecordsLost if a partition ends before the offset to which it was read."""
    for partition, offset in read_to.items():
        end = topic_offsets.ends.get(partition, offset)
        if end < offset:
            raise RecordsLost(
                f"{topic}/{partition} was read to offset {offset} and ends at {end} now: the brokers have lost "
                "records, and others may come in their place. Remove from your result what was read from there on, "
                "and read again from that offset"
            )
