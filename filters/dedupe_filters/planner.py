"""Asks Kafka what a topic and its filters hold, and plans what of it has to be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from dedupe_crds.deadline import Deadline
from dedupe_filters.filter_index import FilterIndex, newest_sources
from dedupe_filters.range_consumer import BULK, RangeConsumer, consumer_config
from dedupe_filters.range_plan import Claims, Plan, plan
from dedupe_filters.values import FilterSource, Wanted
from dedupe_kafka.client import Properties
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import (
    BrokerUnavailable,
    InvalidConfig,
    RecordsExpired,
    TopicMissing,
    TopicUnusable,
)
from dedupe_kafka.offsets import OffsetRange, TopicOffsets
from dedupe_kafka.side_topics import filters_topic

GAP_OFFSETS: Final = 100
"""So few offsets between two ranges are fetched rather than skipped: Kafka fetches whole batches, often larger ones."""

Place = Literal["earliest", "latest"] | Mapping[int, int]
"""Where a read begins or ends: offsets by partition, of which those that are absent are not read."""

_PATIENCE_SECONDS: Final = 20.0
_RETRY_SECONDS: Final = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What to read of a topic.

    `properties` are librdkafka's, of the user, and may hold secrets. Without `wanted` all records are read. `source` is
    where their values are; without it, where the newest filters have them from.
    """

    bootstrap_servers: str
    topic: str
    wanted: Wanted | None = None
    source: FilterSource | None = None
    gap_offsets: int = GAP_OFFSETS
    properties: Properties = field(default_factory=dict, repr=False)


def read_offsets(cluster: Cluster, topic: str) -> TopicOffsets:
    """Return what a topic holds now, trying again for a while, as when a partition is given to another broker.

    Raises TopicMissing if there is none, or BrokerUnavailable, NotAuthorized.
    """
    deadline = Deadline(_PATIENCE_SECONDS)
    while True:
        try:
            return cluster.offsets(topic)
        except BrokerUnavailable:
            if not deadline.pause(_RETRY_SECONDS):
                raise


def offsets_at(place: Place, topic_offsets: TopicOffsets, topic: str) -> dict[int, int]:
    """Return the offsets of a place by partition; those that are given may be beyond the end.

    Raises TopicMissing for a partition that the topic has not.
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


class Planner:
    """Plans reads of one topic, again and again if need be. Not to be shared between threads.

    `client` is more configuration for its consumer. Raises a StreamError when Kafka does not answer or refuses,
    TopicMissing if the topic is absent.
    """

    def __init__(self, selection: Selection, client: Mapping[str, Any] | None = None) -> None:
        self._selection = selection
        self._client = client or {}
        self._source = selection.source
        self._filters = filters_topic(selection.topic)
        self._cluster = Cluster(selection.bootstrap_servers, selection.properties)
        self._consumer: RangeConsumer | None = None
        self._index: FilterIndex | None = None
        self._topic_id = ""

    def topic_offsets(self) -> TopicOffsets:
        """Return what the topic holds now.

        Raises TopicUnusable if it is no longer the topic that it was at first: its offsets are others now.
        """
        topic_offsets = read_offsets(self._cluster, self._selection.topic)
        if self._topic_id not in {"", topic_offsets.id}:
            raise TopicUnusable(
                f"Topic {self._selection.topic} was deleted and created again while it was read: read it from "
                "its start."
            )
        self._topic_id = topic_offsets.id
        return topic_offsets

    def source(self, topic_offsets: TopicOffsets) -> FilterSource:
        """Return where the values are.

        Raises InvalidConfig if nobody says so: there are no filters, or they differ.
        """
        if self._source is not None:
            return self._source
        filters = self._filters_offsets()
        found = (
            newest_sources(self._filters_consumer(), topic_offsets.id, filters)
            if filters
            else set()
        )
        if len(found) != 1:
            why = (
                f"the newest filters in {self._filters} are of {' and '.join(sorted(map(str, found)))}"
                if found
                else f"there are no filters in topic {self._filters}"
            )
            raise InvalidConfig(
                f"Where the values of topic {self._selection.topic} are is not known, as {why}: name the header or the "
                "JSON path."
            )
        self._source = found.pop()
        return self._source

    def plan(
        self, topic_offsets: TopicOffsets, ranges: Mapping[int, OffsetRange]
    ) -> dict[int, Plan]:
        """Return what to read of the ranges, by partition. `topic_offsets` is of now or of before.

        Raises RecordsExpired if a offsets begins before what is kept.
        """
        for partition, offsets in ranges.items():
            if offsets.count > 0 and offsets.low < topic_offsets.lows.get(partition, 0):
                raise RecordsExpired(
                    f"records of {self._selection.topic}/{partition} were to be read from offset {offsets.low} on, and "
                    f"it begins at {topic_offsets.lows[partition]}; read from there, or raise the topic's retention"
                )
        claims = self._claims(topic_offsets, ranges)
        return {
            partition: plan(
                offsets,
                claims[partition],
                stable_end=topic_offsets.ends[partition],
                gap_offsets=self._selection.gap_offsets,
            )
            for partition, offsets in ranges.items()
        }

    def forget(self, befores: Mapping[int, int]) -> None:
        """Nothing before these offsets will be planned again."""
        if self._index is not None:
            self._index.forget(befores)

    def poll(self, seconds: float) -> bool:
        """Let the consumer call back; false if there is none."""
        return self._consumer is not None and self._consumer.poll(seconds)

    def close(self) -> None:
        """Let go of the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _claims(
        self, topic_offsets: TopicOffsets, ranges: Mapping[int, OffsetRange]
    ) -> dict[int, Claims]:
        wanted = self._selection.wanted
        filters = None if wanted is None else self._filters_offsets()
        if wanted is None or filters is None:
            return {partition: Claims.of([]) for partition in ranges}
        if self._index is None:
            source = self.source(topic_offsets)
            self._index = FilterIndex(self._filters_consumer(), topic_offsets.id, source, wanted)
        self._index.refresh(filters)
        return {partition: self._index.claims(partition) for partition in ranges}

    def _filters_offsets(self) -> TopicOffsets | None:
        try:
            return read_offsets(self._cluster, self._filters)
        except TopicMissing:
            return None

    def _filters_consumer(self) -> RangeConsumer:
        if self._consumer is None:
            selection = self._selection
            config = consumer_config(selection.bootstrap_servers, selection.properties, BULK)
            # Filters that retention deletes meanwhile are not missed: what they spoke of is read.
            config["auto.offset.reset"] = "earliest"
            self._consumer = RangeConsumer({**config, **self._client}, self._filters)
        return self._consumer
