"""Streaming reads of a topic; each micro-batch is planned by the present filters.

A streaming offset is {"topicId": UUID, "offsets": {"0": 17, …}}: the next offset of each partition. It contains the
UUID because a topic that was deleted and created again has other records at the same offsets.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from dedupe_filters.range_plan import Plan
from dedupe_filters.selection import check_reached, offsets_at
from dedupe_kafka.errors import InvalidConfig, TopicUnusable
from dedupe_kafka.offsets import OffsetRange, TopicOffsets
from dedupe_pipeline.datasource.input_partition import (
    filter_source,
    input_partitions,
    read_input_partition,
)
from dedupe_pipeline.datasource.options import ReadOptions
from dedupe_pipeline.datasource.split import ends_within

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

    from dedupe_filters.planner import Planner

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark before 4.2: a micro-batch is all that the topic has
    SupportsTriggerAvailableNow = object
_SPARK_LIMITS_BATCHES = SupportsTriggerAvailableNow is not object


@dataclass
class _DriverState:
    """The driver's state between micro-batches: planner and last known offsets."""

    planner: "Planner"
    topic_offsets: TopicOffsets


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc] # the base is Any
    """Plans in a process that lives as long as the query, reads in the tasks.

    Spark pickles a copy for the tasks, so the clients are created at the first use.
    """

    def __init__(self, options: ReadOptions) -> None:
        """Take the options. Raises InvalidConfig for one that needs a newer Spark."""
        if options.max_records_per_trigger is not None and not _SPARK_LIMITS_BATCHES:
            raise InvalidConfig(
                "option maxRecordsPerTrigger needs Spark 4.2 or newer, whose Python data sources can limit a "
                "micro-batch; remove it, or shorten the trigger's interval"
            )
        self._options = options
        self._driver: _DriverState | None = None
        self._last: dict[int, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names, here and below)
        """Return the start of a new query."""
        driver = self._refreshed()
        filter_source(
            driver.planner, self._options, driver.topic_offsets
        )  # raises now if the source is unknown
        # A start beyond the last stable offset is allowed: the query waits for it and reads nothing before it.
        starts = offsets_at(
            self._options.starting, driver.topic_offsets, self._options.selection.topic
        )
        return _encode(driver.topic_offsets.id, starts)

    def getDefaultReadLimit(self) -> "ReadLimit":  # noqa: N802
        """Return the option maxRecordsPerTrigger as a `ReadLimit`, for Spark 4.2."""
        from pyspark.sql.streaming import datasource  # noqa: PLC0415 (from Spark 4.2 on)

        most = self._options.max_records_per_trigger
        return datasource.ReadAllAvailable() if most is None else datasource.ReadMaxRows(most)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: "ReadLimit | None" = None
    ) -> dict[str, Any]:
        """Return the end of the next micro-batch; skipped offsets do not count to a limit.

        Spark before 4.2 gives neither `start` nor `limit` (a `ReadLimit`).
        """
        driver = self._refreshed()
        if start is None:
            starts = offsets_at(
                self._options.starting, driver.topic_offsets, self._options.selection.topic
            )
        else:
            starts = self._reached(start, driver.topic_offsets)
        last = self._last or driver.topic_offsets.ends
        ends = {
            p: max(at, min(last.get(p, at), driver.topic_offsets.ends[p]))
            for p, at in starts.items()
        }
        most = getattr(limit, "max_rows", None)
        if most is not None:
            plans = self._plan(driver, starts, ends)
            ranges = {partition: plan.ranges for partition, plan in plans.items()}
            ends = ends_within(ranges, ends, starts, most)
        return _encode(driver.topic_offsets.id, ends)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the end of the topic, for the query's progress."""
        driver = self._refreshed()
        return _encode(driver.topic_offsets.id, driver.topic_offsets.ends)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit the query to the present end of the topic."""
        self._last = dict(self._refreshed().topic_offsets.ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide a micro-batch among tasks."""
        driver = self._refreshed()
        starts, ends = (
            self._reached(start, driver.topic_offsets),
            self._decode(end, driver.topic_offsets),
        )
        plans = self._plan(driver, starts, ends)
        source = filter_source(driver.planner, self._options, driver.topic_offsets)
        ranges = {partition: plan.ranges for partition, plan in plans.items() if plan.ranges}
        return input_partitions(ranges, self._options, source)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the partition of one task."""
        return read_input_partition(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Discard the state for offsets before `end`, which Spark has committed."""
        if self._driver is not None:
            self._driver.planner.forget(self._decode(end, self._driver.topic_offsets))

    def stop(self) -> None:
        """Close the connections."""
        if self._driver is not None:
            self._driver.planner.close()
            self._driver = None

    def _refreshed(self) -> _DriverState:
        """Return the driver's state with the topic's present offsets."""
        from dedupe_filters.planner import Planner  # noqa: PLC0415 (executors lack what it needs)

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

    def _reached(self, start: Mapping[str, Any], topic_offsets: TopicOffsets) -> dict[int, int]:
        """Return the offsets to which the query has read. Raises RecordsLost."""
        starts, given = self._decode(start, topic_offsets), self._options.starting
        # Given offsets may be beyond the end: they were not read.
        read_to = {
            p: at for p, at in starts.items() if isinstance(given, str) or at != given.get(p)
        }
        check_reached(read_to, topic_offsets, self._options.selection.topic)
        return starts

    def _decode(self, offset: Mapping[str, Any], topic_offsets: TopicOffsets) -> dict[int, int]:
        """Return offsets by partition; a partition that was added since begins at 0.

        Not at its first retained offset: records that were deleted before they were read would be missed.
        """
        if offset["topicId"] != topic_offsets.id:
            raise TopicUnusable(
                f"Topic {self._options.selection.topic} was deleted and created again since the query's checkpoint was "
                "written: its offsets are of other records now; start with a new checkpoint."
            )
        known = {int(partition): at for partition, at in offset["offsets"].items()}
        if isinstance(self._options.starting, str):
            known = dict.fromkeys(topic_offsets.lows, 0) | known
        return known


def _encode(topic_id: str, offsets: Mapping[int, int]) -> dict[str, Any]:
    """Encode with the partitions in order, because Spark compares offsets as texts."""
    return {"topicId": topic_id, "offsets": {str(p): offsets[p] for p in sorted(offsets)}}
