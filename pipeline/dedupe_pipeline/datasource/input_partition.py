"""The input of one Spark task: some offset ranges of one partition.

The batch and the streaming reader use it.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from dedupe_filters.range_consumer import BULK, SPARSE, RangeConsumer, consumer_config
from dedupe_filters.values import FilterSource
from dedupe_kafka.errors import RecordUnreadable
from dedupe_kafka.offsets import OffsetRange, TopicOffsets
from dedupe_pipeline.datasource.arrow import to_arrow
from dedupe_pipeline.datasource.options import ReadOptions
from dedupe_pipeline.datasource.split import split

if TYPE_CHECKING:
    from dedupe_filters.planner import Planner


class RangeInputPartition(InputPartition):
    """Some ranges of one partition, and the source of the values if they are needed."""

    def __init__(
        self, partition: int, ranges: Sequence[OffsetRange], source: FilterSource | None
    ) -> None:
        self.partition = partition
        self.ranges = tuple(ranges)
        self.source = source


def filter_source(
    planner: "Planner", options: ReadOptions, topic_offsets: TopicOffsets
) -> FilterSource | None:
    """Return the source of the values, None if neither filter nor column needs them."""
    if options.selection.wanted is None and options.added.value is None:
        return None
    return planner.source(topic_offsets)


def input_partitions(
    ranges: Mapping[int, Sequence[OffsetRange]], options: ReadOptions, source: FilterSource | None
) -> list[RangeInputPartition]:
    """Divide the ranges among tasks."""
    return [
        RangeInputPartition(partition, part, source)
        for partition, part in split(ranges, options.min_partitions)
    ]


def read_input_partition(
    options: ReadOptions, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Read a task's ranges, and check each value, as filters have false matches."""
    if not isinstance(partition, RangeInputPartition):
        return  # Spark's own class: there is nothing to read
    selection = options.selection
    wanted = selection.wanted
    fetching = BULK if wanted is None else SPARSE
    config = consumer_config(selection.bootstrap_servers, selection.properties, fetching)
    value_of = None if partition.source is None else partition.source.extractor()
    with _without_collections(), closing(RangeConsumer(config, selection.topic)) as consumer:
        for fetched in consumer.read({partition.partition: partition.ranges}):
            with _other_source_named():
                records = fetched
                values = None if value_of is None else [value_of(record) for record in fetched]
                if wanted is not None and values is not None:
                    chosen = [at for at, value in enumerate(values) if wanted.selects(value)]
                    records, values = [fetched[at] for at in chosen], [values[at] for at in chosen]
                batch = to_arrow(records, values, options.added) if records else None
            if batch is not None:
                yield batch


@contextmanager
def _other_source_named() -> Iterator[None]:
    """Add to the error of a record that cannot be read how Spark reads it."""
    try:
        yield
    except RecordUnreadable as error:
        raise RecordUnreadable(
            f"{error}. Spark's own Kafka source (read_clean) reads the record, with \N{REPLACEMENT CHARACTER} in the "
            "header's name; this one reads up to it and from behind it (options endingOffsets, startingOffsets)"
        ) from error


@contextmanager
def _without_collections() -> Iterator[None]:
    """Disable Python's cyclic garbage collector: 3.0 µs a record instead of 5.3.

    Records form no cycles and are freed when their batch is returned. But their number would make the collector scan
    everything that Spark's Python worker has imported, many times.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
