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
from dedupe_filters.range_plan import Plan
from dedupe_kafka.errors import TopicUnusable
from dedupe_kafka.offsets import OffsetRange, TopicOffsets
from dedupe_pipeline.datasource.input_partition import (
    filter_source,
    input_partitions,
    read_input_partition,
)
from dedupe_pipeline.datasource.options import ReadOptions
from dedupe_pipeline.datasource.split import ends_within


@dataclass
class _DriverState:
    """What the driver keeps between micro-batches: a planner, and what it has last heard of the topic."""

    planner: Planner
    topic_offsets: TopicOffsets


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in a process that lives as long as the query, reads in the tasks.

    Spark pickles another one for the tasks, so a client is made when the first question comes.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._driver: _DriverState | None = None
        self._last: dict[int, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names, here and below)
        """Where a new query begins."""
        driver = self._refreshed()
        filter_source(
            driver.planner, self._options, driver.topic_offsets
        )  # says at once if that is not known
        # One that is beyond what is final now is waited for: what comes before it is not asked for.
        starts = offsets_at(
            self._options.starting, driver.topic_offsets, self._options.selection.topic
        )
        return _encode(driver.topic_offsets.id, starts)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The option maxRecordsPerTrigger."""
        most = self._options.max_records_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far to go from `start`. What is skipped does not count towards a limit of rows."""
        driver = self._refreshed()
        starts = self._decode(start, driver.topic_offsets)
        last = self._last or driver.topic_offsets.ends
        ends = {
            p: max(at, min(last.get(p, at), driver.topic_offsets.ends[p]))
            for p, at in starts.items()
        }
        if isinstance(limit, ReadMaxRows):
            plans = self._plan(driver, starts, ends)
            ranges = {partition: plan.ranges for partition, plan in plans.items()}
            ends = ends_within(ranges, ends, starts, limit.max_rows)
        return _encode(driver.topic_offsets.id, ends)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The end of the topic, for the query's progress."""
        driver = self._refreshed()
        return _encode(driver.topic_offsets.id, driver.topic_offsets.ends)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Go no further than what is there now."""
        self._last = dict(self._refreshed().topic_offsets.ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide one micro-batch among tasks."""
        driver = self._refreshed()
        starts, ends = (
            self._decode(start, driver.topic_offsets),
            self._decode(end, driver.topic_offsets),
        )
        plans = self._plan(driver, starts, ends)
        source = filter_source(driver.planner, self._options, driver.topic_offsets)
        ranges = {partition: plan.ranges for partition, plan in plans.items() if plan.ranges}
        return input_partitions(ranges, self._options, source)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's partition."""
        return read_input_partition(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """What is before `end` will not be asked for again."""
        if self._driver is not None:
            self._driver.planner.forget(self._decode(end, self._driver.topic_offsets))

    def stop(self) -> None:
        """Let go of the connection."""
        if self._driver is not None:
            self._driver.planner.close()
            self._driver = None

    def _refreshed(self) -> _DriverState:
        """Ask what the topic holds now."""
        if self._driver is None:
            planner = Planner(self._options.selection)
            self._driver = _DriverState(planner, planner.topic_offsets())
        else:
            self._driver.topic_offsets = self._driver.planner.topic_offsets()
        return self._driver

    def _plan(
        self, driver: _DriverState, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> dict[int, Plan]:
        return driver.planner.plan(
            driver.topic_offsets, {p: OffsetRange(at, ends[p]) for p, at in starts.items()}
        )

    def _decode(self, offset: Mapping[str, Any], topic_offsets: TopicOffsets) -> dict[int, int]:
        """Offsets by partition; one that was added to the topic since begins at its start."""
        if offset["topicId"] != topic_offsets.id:
            raise TopicUnusable(
                f"Topic {self._options.selection.topic} was deleted and created again since the query's checkpoint was "
                "written: its offsets mean other records now; begin with a new checkpoint."
            )
        known = {int(partition): at for partition, at in offset["offsets"].items()}
        if isinstance(self._options.starting, str):
            known = dict(topic_offsets.lows) | known
        return known


def _encode(topic_id: str, offsets: Mapping[int, int]) -> dict[str, Any]:
    """Partitions in order: Spark compares offsets as texts."""
    return {"topicId": topic_id, "offsets": {str(p): offsets[p] for p in sorted(offsets)}}
