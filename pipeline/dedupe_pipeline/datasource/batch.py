"""A batch read: what a topic holds now, or between offsets that are given."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    In,
    InputPartition,
)

from dedupe_filters.planner import Place, Planner, offsets_at
from dedupe_filters.range_plan import Span
from dedupe_filters.values import Wanted
from dedupe_kafka.cluster import TopicState
from dedupe_pipeline.datasource.input_partition import read_share, shares, source_of
from dedupe_pipeline.datasource.options import ReadOptions


class BatchReader(DataSourceReader):
    """Plans in the driver, reads in the tasks. Pickled between, so it holds options only."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Divide what has to be read among tasks."""
        options = self._options
        wanted = options.selection.wanted
        if wanted is not None and not wanted.values and not wanted.unfiltered:
            return []
        with closing(Planner(options.selection)) as planner:
            state = planner.state()
            starts = final_offsets(options.starting, state, options.selection.topic)
            ends = final_offsets(options.ending, state, options.selection.topic)
            spans = {p: Span(start, max(start, ends.get(p, start))) for p, start in starts.items()}
            source = source_of(planner, options, state)
            plans = planner.plan(state, spans)
        return list(shares({p: plan.spans for p, plan in plans.items()}, options, source))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's share."""
        return read_share(self._options, partition)


class FilteringReader(BatchReader):
    """Takes conditions on the filter column as values that are wanted.

    Not every reader does: Spark keeps what was pushed longer than it may, see source.py.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Keep values of which the column has to be one; Spark is to check all conditions again nevertheless."""
        column = (self._options.filter_column,)
        for condition in filters:
            if not isinstance(condition, EqualTo | In) or tuple(condition.attribute) != column:
                continue
            values = condition.value if isinstance(condition, In) else (condition.value,)
            if all(isinstance(value, str) for value in values):
                self._want(values)
        return filters

    def _want(self, values: Iterable[str]) -> None:
        """Want one of these values, and of those wanted before."""
        asked = Wanted.of(values)
        before = self._options.selection.wanted
        if before is not None:
            asked = Wanted(asked.values & before.values, unfiltered=False)
        selection = replace(self._options.selection, wanted=asked)
        self._options = replace(self._options, selection=selection)


def final_offsets(place: Place, state: TopicState, topic: str) -> dict[int, int]:
    """Return offsets by partition, none beyond what is final.

    Raises TopicMissing for a partition that the topic has not.
    """
    found = offsets_at(place, state, topic)
    return {p: min(offset, state.ends[p]) for p, offset in found.items()}
