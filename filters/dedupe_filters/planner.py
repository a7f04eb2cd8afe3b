"""Plan which offsets of a topic a reader must read, from the topic's filters.

`FilteredReader`, the Spark data source and the backfill call it. Invariant: an offset that no filter rules out is read.
"""

from collections.abc import Mapping
from typing import Any, Final

from dedupe_crds.deadline import Deadline
from dedupe_filters.filter_index import FilterIndex, newest_sources
from dedupe_filters.range_consumer import BULK, RangeConsumer, consumer_config
from dedupe_filters.range_plan import Claims, Plan, plan
from dedupe_filters.selection import Selection
from dedupe_filters.values import FilterSource
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

_PATIENCE_SECONDS: Final = 20.0
_RETRY_SECONDS: Final = 0.2


def read_offsets(cluster: Cluster, topic: str) -> TopicOffsets:
    """Return a topic's present offsets.

    It retries for a while, for example while the leadership of a partition moves. Raises TopicMissing if the topic is
    absent, and BrokerUnavailable or NotAuthorized.
    """
    deadline = Deadline(_PATIENCE_SECONDS)
    while True:
        try:
            return cluster.offsets(topic)
        except BrokerUnavailable:
            if not deadline.pause(_RETRY_SECONDS):
                raise


class Planner:
    """Plans any number of reads of one topic. Not to be shared between threads.

    `client` is additional configuration of its consumer. Raises a StreamError when Kafka does not answer or refuses,
    TopicMissing if the topic is absent.
    """

    def __init__(self, selection: Selection, client: Mapping[str, Any] | None = None) -> None:
        self._selection = selection
        self._client = client or {}
        self._source = selection.source
        self._filters = filters_topic(selection.topic)
        self._cluster = Cluster(selection.bootstrap_servers, selection.properties)
        self._ranges: RangeConsumer | None = None
        self._index: FilterIndex | None = None
        self._topic_id = ""

    def topic_offsets(self) -> TopicOffsets:
        """Return the topic's present offsets.

        Raises TopicUnusable if the topic was deleted and created again: its offsets are of other records now.
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
        """Return the source of the values.

        Raises InvalidConfig if it is not configured, and there are no filters or they have different sources.
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
                f"The source of the values of topic {self._selection.topic} is unknown, because {why}: name the header "
                "or the JSON path."
            )
        self._source = found.pop()
        return self._source

    def plan(
        self, topic_offsets: TopicOffsets, ranges: Mapping[int, OffsetRange]
    ) -> dict[int, Plan]:
        """Return the plan of each partition's range; `topic_offsets` may be outdated.

        Raises RecordsExpired if a range begins before the first retained offset.
        """
        for partition, offsets in ranges.items():
            if offsets.count > 0 and offsets.low < topic_offsets.lows.get(partition, 0):
                raise RecordsExpired(
                    f"the read of {self._selection.topic}/{partition} starts at offset {offsets.low}, and "
                    f"the partition begins at {topic_offsets.lows[partition]}; read from there, or raise the topic's "
                    "retention"
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
        """Discard what is needed only for offsets before these, by partition."""
        if self._index is not None:
            self._index.forget(befores)

    def poll(self, seconds: float) -> bool:
        """Serve the consumer's callbacks; return False without a consumer."""
        return self._ranges is not None and self._ranges.poll(seconds)

    def close(self) -> None:
        """Close the connection."""
        if self._ranges is not None:
            self._ranges.close()
            self._ranges = None

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
        if self._ranges is None:
            selection = self._selection
            config = consumer_config(selection.bootstrap_servers, selection.properties, BULK)
            # If retention deletes filters meanwhile, their ranges are read, so no error is needed.
            config["auto.offset.reset"] = "earliest"
            self._ranges = RangeConsumer({**config, **self._client}, self._filters)
        return self._ranges
