"""Asks Kafka what a topic and its filters hold, and plans what of it has to be read."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from dedupe_filters.filter_index import FilterIndex, newest_sources
from dedupe_filters.range_consumer import BULK, RecordsExpired, SpanFetcher, consumer_config
from dedupe_filters.range_plan import Claims, Plan, Span, plan
from dedupe_filters.values import FilterSource, Wanted
from dedupe_kafka.client import Properties
from dedupe_kafka.cluster import Cluster, TopicState
from dedupe_kafka.errors import BrokerUnavailable, InvalidConfig, TopicMissing, TopicUnusable
from dedupe_kafka.side_topics import filters_topic

GAP_OFFSETS: Final = 100
"""So few offsets between two spans are fetched rather than skipped: Kafka fetches whole batches, often larger ones."""

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


def ask_state(cluster: Cluster, topic: str) -> TopicState:
    """Return what a topic holds now, trying again for a while, as when a partition is given to another broker.

    Raises TopicMissing if there is none, or BrokerUnavailable, NotAuthorized.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return cluster.topic_state(topic)
        except BrokerUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)


def offsets_at(place: Place, state: TopicState, topic: str) -> dict[int, int]:
    """Return the offsets of a place by partition; those that are given may be beyond the end.

    Raises TopicMissing for a partition that the topic has not.
    """
    match place:
        case "earliest":
            return dict(state.lows)
        case "latest":
            return dict(state.ends)
        case offsets:
            if absent := sorted(offsets.keys() - state.ends.keys()):
                raise TopicMissing(
                    f"Topic {topic} has no partition {absent[0]}: it has {len(state.ends)}, numbered from 0."
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
        self._fetcher: SpanFetcher | None = None
        self._index: FilterIndex | None = None
        self._topic_id = ""

    def state(self) -> TopicState:
        """Return what the topic holds now.

        Raises TopicUnusable if it is no longer the topic that it was at first: its offsets are others now.
        """
        state = ask_state(self._cluster, self._selection.topic)
        if self._topic_id not in {"", state.id}:
            raise TopicUnusable(
                f"Topic {self._selection.topic} was deleted and created again while it was read: read it from "
                "its start."
            )
        self._topic_id = state.id
        return state

    def source(self, state: TopicState) -> FilterSource:
        """Return where the values are.

        Raises InvalidConfig if nobody says so: there are no filters, or they differ.
        """
        if self._source is not None:
            return self._source
        filters = self._filters_state()
        found = newest_sources(self._filters_fetcher(), state.id, filters) if filters else set()
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

    def plan(self, state: TopicState, spans: Mapping[int, Span]) -> dict[int, Plan]:
        """Return what to read of the spans, by partition. `state` is of now or of before.

        Raises RecordsExpired if a span begins before what is kept.
        """
        for partition, span in spans.items():
            if span.offsets > 0 and span.start < state.lows.get(partition, 0):
                raise RecordsExpired(
                    f"records of {self._selection.topic}/{partition} were to be read from offset {span.start} on, and "
                    f"it begins at {state.lows[partition]}; read from there, or raise the topic's retention"
                )
        claims = self._claims(state, spans)
        return {
            partition: plan(
                span,
                claims[partition],
                stable_end=state.ends[partition],
                gap_offsets=self._selection.gap_offsets,
            )
            for partition, span in spans.items()
        }

    def forget(self, befores: Mapping[int, int]) -> None:
        """Nothing before these offsets will be planned again."""
        if self._index is not None:
            self._index.forget(befores)

    def poll(self, seconds: float) -> bool:
        """Let the consumer call back; false if there is none."""
        return self._fetcher is not None and self._fetcher.poll(seconds)

    def close(self) -> None:
        """Let go of the connection."""
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None

    def _claims(self, state: TopicState, spans: Mapping[int, Span]) -> dict[int, Claims]:
        wanted = self._selection.wanted
        filters = None if wanted is None else self._filters_state()
        if wanted is None or filters is None:
            return {partition: Claims.of([]) for partition in spans}
        if self._index is None:
            source = self.source(state)
            self._index = FilterIndex(self._filters_fetcher(), state.id, source, wanted)
        self._index.refresh(filters)
        return {partition: self._index.claims(partition) for partition in spans}

    def _filters_state(self) -> TopicState | None:
        try:
            return ask_state(self._cluster, self._filters)
        except TopicMissing:
            return None

    def _filters_fetcher(self) -> SpanFetcher:
        if self._fetcher is None:
            selection = self._selection
            config = consumer_config(selection.bootstrap_servers, selection.properties, BULK)
            # Filters that retention deletes meanwhile are not missed: what they spoke of is read.
            config["auto.offset.reset"] = "earliest"
            self._fetcher = SpanFetcher({**config, **self._client}, self._filters)
        return self._fetcher
