"""What one task reads: some spans of one partition of a topic."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from dedupe_filters.planner import Planner
from dedupe_filters.range_consumer import BULK, SPARSE, SpanFetcher, consumer_config
from dedupe_filters.range_plan import Span
from dedupe_filters.values import FilterSource
from dedupe_kafka.cluster import TopicState
from dedupe_pipeline.datasource.arrow import to_arrow
from dedupe_pipeline.datasource.options import ReadOptions
from dedupe_pipeline.datasource.split import split


class Share(InputPartition):
    """Some spans of one partition, and where records' values are, if anybody asks for them."""

    def __init__(self, partition: int, spans: Sequence[Span], source: FilterSource | None) -> None:
        self.partition = partition
        self.spans = tuple(spans)
        self.source = source


def source_of(planner: Planner, options: ReadOptions, state: TopicState) -> FilterSource | None:
    """Return where values are; None if nothing is chosen by them and nobody wants to see them."""
    if options.selection.wanted is None and options.filter_column is None:
        return None
    return planner.source(state)


def shares(
    spans: Mapping[int, Sequence[Span]], options: ReadOptions, source: FilterSource | None
) -> list[Share]:
    """Divide what is to be read among tasks."""
    return [
        Share(partition, part, source) for partition, part in split(spans, options.min_partitions)
    ]


def read_share(options: ReadOptions, share: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read a share, and choose again among what comes: filters may match what they do not hold."""
    if not isinstance(share, Share):
        return  # Spark's own, where there is nothing to read
    selection = options.selection
    wanted = selection.wanted
    fetching = BULK if wanted is None else SPARSE
    config = consumer_config(selection.bootstrap_servers, selection.properties, fetching)
    value_of = None if share.source is None else share.source.extractor()
    with _without_collections(), closing(SpanFetcher(config, selection.topic)) as fetcher:
        for fetched in fetcher.read({share.partition: share.spans}):
            records = fetched
            values = None if value_of is None else [value_of(record) for record in fetched]
            if wanted is not None and values is not None:
                chosen = [at for at, value in enumerate(values) if wanted.selects(value)]
                records, values = [fetched[at] for at in chosen], [values[at] for at in chosen]
            if records:
                yield to_arrow(records, values, options.filter_column)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Hold Python's collector of cycles back: 3.0 µs a record in place of 5.3.

    Records hold no cycles, and die when their batch is handed over. But their number makes the collector go through all
    that Spark's worker has imported, again and again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
