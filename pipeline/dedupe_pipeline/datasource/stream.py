"""A streaming read: from offset to offset, each micro-batch planned by the filters that are there by then.

An offset is {"topicId": UUID, "offsets": {"0": 17, …}}: one past what is done of each partition. The UUID is there
because a topic that is deleted and created again has other records at the same offsets.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from dedupe_filters.planner import Planner, offsets_at
from dedupe_filters.range_plan import Plan, Span
from dedupe_kafka.cluster import TopicState
from dedupe_kafka.errors import TopicUnusable
from dedupe_pipeline.datasource.input_partition import read_share, shares, source_of
from dedupe_pipeline.datasource.options import ReadOptions
from dedupe_pipeline.datasource.split import ends_within


@dataclass
class _Live:
    """What the driver keeps between micro-batches: a planner, and what it has last heard of the topic."""

    planner: Planner
    state: TopicState


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in a process that lives as long as the query, reads in the tasks.

    Spark pickles another one for the tasks, so a client is made when the first question comes.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._live: _Live | None = None
        self._last: dict[int, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names, here and below)
        """Where a new query begins."""
        live = self._asked()
        source_of(live.planner, self._options, live.state)  # says at once if that is not known
        # One that is beyond what is final now is waited for: what comes before it is not asked for.
        starts = offsets_at(self._options.starting, live.state, self._options.selection.topic)
        return _encode(live.state.id, starts)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The option maxRecordsPerTrigger."""
        most = self._options.max_records_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far to go from `start`. What is skipped does not count towards a limit of rows."""
        live = self._asked()
        starts = self._decode(start, live.state)
        last = self._last or live.state.ends
        ends = {p: max(at, min(last.get(p, at), live.state.ends[p])) for p, at in starts.items()}
        if isinstance(limit, ReadMaxRows):
            plans = self._plan(live, starts, ends)
            spans = {partition: plan.spans for partition, plan in plans.items()}
            ends = ends_within(spans, ends, starts, limit.max_rows)
        return _encode(live.state.id, ends)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The end of the topic, for the query's progress."""
        live = self._asked()
        return _encode(live.state.id, live.state.ends)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Go no further than what is there now."""
        self._last = dict(self._asked().state.ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide one micro-batch among tasks."""
        live = self._asked()
        starts, ends = self._decode(start, live.state), self._decode(end, live.state)
        plans = self._plan(live, starts, ends)
        source = source_of(live.planner, self._options, live.state)
        spans = {partition: plan.spans for partition, plan in plans.items() if plan.spans}
        return shares(spans, self._options, source)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's share."""
        return read_share(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """What is before `end` will not be asked for again."""
        if self._live is not None:
            self._live.planner.forget(self._decode(end, self._live.state))

    def stop(self) -> None:
        """Let go of the connection."""
        if self._live is not None:
            self._live.planner.close()
            self._live = None

    def _asked(self) -> _Live:
        """Ask what the topic holds now."""
        if self._live is None:
            planner = Planner(self._options.selection)
            self._live = _Live(planner, planner.state())
        else:
            self._live.state = self._live.planner.state()
        return self._live

    def _plan(
        self, live: _Live, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> dict[int, Plan]:
        return live.planner.plan(live.state, {p: Span(at, ends[p]) for p, at in starts.items()})

    def _decode(self, offset: Mapping[str, Any], state: TopicState) -> dict[int, int]:
        """Offsets by partition; one that was added to the topic since begins at its start."""
        if offset["topicId"] != state.id:
            raise TopicUnusable(
                f"Topic {self._options.selection.topic} was deleted and created again since the query's checkpoint was "
                "written: its offsets mean other records now; begin with a new checkpoint."
            )
        known = {int(partition): at for partition, at in offset["offsets"].items()}
        if isinstance(self._options.starting, str):
            known = dict(state.lows) | known
        return known


def _encode(topic_id: str, offsets: Mapping[int, int]) -> dict[str, Any]:
    """Partitions in order: Spark compares offsets as texts."""
    return {"topicId": topic_id, "offsets": {str(p): offsets[p] for p in sorted(offsets)}}
