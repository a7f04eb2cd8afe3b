"""Choose how many tasks read and shuffle, by the number of offsets.

The job `audit` calls it. A topic's partitions bound neither: a large range of offsets is read by several tasks, and
records meet in as many shuffle partitions as keep one in memory.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from dedupe_kafka.offsets import TopicOffsets

_MOST_OF_READ = 1_000_000
_LEAST_OF_READ = 50_000  # a task costs some 20 ms
_TASKS_OF_CORE = 4
# About 50 MB of rows. Adaptive execution joins what turns out to be small.
_OF_SHUFFLE = 400_000
_SHUFFLE = "spark.sql.shuffle.partitions"


def read_tasks(topics: Sequence[TopicOffsets], cores: int) -> int:
    """Return how many tasks read the topics; each partition has one in any case."""
    offsets = offsets_of(topics)
    of_task = min(_MOST_OF_READ, max(_LEAST_OF_READ, offsets // (cores * _TASKS_OF_CORE)))
    return max(1, math.ceil(offsets / of_task))


def offsets_of(topics: Sequence[TopicOffsets]) -> int:
    """Return the number of offsets, which bounds that of the records."""
    return sum(end - each.lows[number] for each in topics for number, end in each.ends.items())


@contextmanager
def shuffling(spark: SparkSession, offsets: int) -> Iterator[None]:
    """Let shuffles have partitions for so many records, and not less than are set."""
    former = spark.conf.get(_SHUFFLE) or "1"
    spark.conf.set(_SHUFFLE, max(int(former), math.ceil(offsets / _OF_SHUFFLE)))
    try:
        yield
    finally:
        spark.conf.set(_SHUFFLE, former)
