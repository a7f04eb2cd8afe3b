"""Batch reads of a topic: its present records, or those between given offsets."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, InputPartition

from dedupe_filters.selection import Place, offsets_at
from dedupe_filters.values import Wanted
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.offsets import OffsetRange, TopicOffsets
from dedupe_pipeline.datasource.input_partition import (
    filter_source,
    input_partitions,
    read_input_partition,
)
from dedupe_pipeline.datasource.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class BatchReader(DataSourceReader):
    """Plans in the driver, reads in the tasks; pickled, so it holds options only."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Divide the offsets to read among tasks."""
        from dedupe_filters.planner import Planner  # noqa: PLC0415 (executors lack what it needs)

        options = self._options
        wanted = options.selection.wanted
        if wanted is not None and not wanted.values and not wanted.unfiltered:
            return []
        with closing(Planner(options.selection)) as planner:
            topic_offsets = planner.topic_offsets()
            starts = final_offsets(options.starting, topic_offsets, options.selection.topic)
            ends = final_offsets(options.ending, topic_offsets, options.selection.topic)
            ranges = {
                p: OffsetRange(start, max(start, ends.get(p, start))) for p, start in starts.items()
            }
            source = filter_source(planner, options, topic_offsets)
            plans = planner.plan(topic_offsets, ranges)
        return list(
            input_partitions({p: plan.ranges for p, plan in plans.items()}, options, source)
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the partition of one task."""
        return read_input_partition(self._options, partition)


class FilteringReader(BatchReader):
    """Takes conditions on the filter column as wanted values.

    It is off by default, because Spark keeps a pushed condition too long, see source.py.
    """

    def __init__(self, options: ReadOptions) -> None:
        """Take the options. Raises InvalidConfig for Spark 4.0, which has no such."""
        if not hasattr(datasource, "Filter"):
            raise InvalidConfig(
                "option pushFilters needs Spark 4.1 or newer, which passes conditions to Python data sources; remove "
                "it, and name the wanted values in option filter"
            )
        super().__init__(options)

    def pushFilters(self, filters: list["Filter"]) -> Iterable["Filter"]:  # noqa: N802 (Spark's name)
        """Take the values of = and IN; return all filters, so that Spark checks them too."""
        from pyspark.sql.datasource import EqualTo, In  # noqa: PLC0415 (from Spark 4.1 on)

        column = (self._options.added.value,)
        for condition in filters:
            if not isinstance(condition, EqualTo | In) or tuple(condition.attribute) != column:
                continue
            values = condition.value if isinstance(condition, In) else (condition.value,)
            if all(isinstance(value, str) for value in values):
                self._want(values)
        return filters

    def _want(self, values: Iterable[str]) -> None:
        """Restrict the wanted values to these."""
        asked = Wanted.of(values)
        before = self._options.selection.wanted
        if before is not None:
            asked = Wanted(asked.values & before.values, unfiltered=False)
        selection = replace(self._options.selection, wanted=asked)
        self._options = replace(self._options, selection=selection)


def final_offsets(place: Place, topic_offsets: TopicOffsets, topic: str) -> dict[int, int]:
    """Return offsets by partition, at most the last stable ones.

    Raises TopicMissing for a partition that does not exist.
    """
    found = offsets_at(place, topic_offsets, topic)
    return {p: min(offset, topic_offsets.ends[p]) for p, offset in found.items()}
