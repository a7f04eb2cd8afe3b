"""Run a Spark query in micro-batches, for `land` and `aggregate`."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no annotations
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from dedupe_crds.deadline import Deadline
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offsets import OffsetRange
from dedupe_pipeline.errors import PipelineError, first_line
from dedupe_pipeline.runtime.hadoop_paths import spark_path

_STOP_CHECK_SECONDS = 1
_RETRY_SECONDS = 1.0
_SHOWN_PARTITIONS = 8

Left = Mapping[int, OffsetRange]
"""By partition, the offsets that a stopped run has left of those present at its start."""

OnWritten = Callable[[int, int], None]
"""Called with a batch's number and the rows that it has written, each time that it is written."""


def ignore_written(_batch: int, _rows: int) -> None:
    """Do nothing with the rows of a batch."""


def run_batches(
    records: DataFrame,
    process: Callable[[DataFrame, int], None],
    doing: str,
    *,
    checkpoint: Path,
    every: timedelta | None,
    stop: threading.Event,
) -> None:
    """Call `process` with each batch of the streamed `records`, and its number.

    It ends with the records that are present now; with `every`, only `stop` ends it. The next run repeats a batch that
    was interrupted, with the same offsets. `doing`, such as "landing 'orders'", is the query's name and opens the text
    of an error.

    Raises:
        StreamError: `process` has raised it.
        PipelineError: `process` has raised another error, or Spark failed.
    """
    failures: list[Exception] = []

    def run_batch(rows: DataFrame, batch: int) -> None:
        try:
            process(rows, batch)
        except Exception as error:  # noqa: BLE001 (raised below)
            # Spark parses the text of an error with a regular expression that overflows the stack of its thread for
            # a long text, such as its own errors. So raise a short text.
            failures.append(error)
            raise PipelineError(f"batch {batch} failed") from None

    query = records.writeStream.queryName(doing).foreachBatch(run_batch)
    query = query.option("checkpointLocation", spark_path(checkpoint))
    try:
        with translate_start_errors(doing):
            _run_until(_with_trigger(query, every), stop)
    except StreamingQueryException as error:
        cause = failures[-1] if failures else error
        if isinstance(cause, StreamError):
            raise cause from error
        raise PipelineError(
            f"{doing} stopped: {first_line(cause)}; nothing is lost: repair the cause and run it again"
        ) from cause


@contextmanager
def translate_start_errors(doing: str) -> Iterator[None]:
    """Raise errors of Spark before the first batch as `PipelineError`."""
    try:
        yield
    except StreamingQueryException:
        raise  # of a batch
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"{doing} could not start: {first_line(error)}") from error


def current_topic_id(
    cluster: Cluster, topic: str, *, patience: timedelta, stop: threading.Event
) -> str:
    """Return a topic's UUID, with retries for up to `patience`.

    Raises:
        StreamError: Kafka did not return it in time.
    """
    deadline = Deadline(patience.total_seconds(), wait=stop.wait)
    while True:
        try:
            return cluster.topic_id(topic)
        except StreamError:  # right after a broker's start, an existing topic may be unknown
            if not deadline.pause(_RETRY_SECONDS):
                raise


def planned_ends(checkpoint: Path, batch: int) -> dict[int, int]:
    """Return the end offsets of a batch by partition, from Spark's log.

    The offsets of the last records are not enough: transaction markers may follow them. Once the topic deleted those,
    it would seem that uncounted records are lost.
    """
    *_, offsets = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    return _offsets(offsets)


def initial_offsets(checkpoint: Path) -> dict[int, int]:
    """Return the offsets at which the first batch begins."""
    *_, offsets = (checkpoint / "sources/0/0").read_text(encoding="utf-8").splitlines()
    return _offsets(offsets)


def committed_batch(checkpoint: Path) -> int | None:
    """Return the number of the last batch that is done, None without any."""
    done = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    return max(done, default=None)


def committed_ends(checkpoint: Path) -> dict[int, int]:
    """Return the end offsets of the last batch that is done; none without any."""
    batch = committed_batch(checkpoint)
    return {} if batch is None else planned_ends(checkpoint, batch)


def left_before(ends: Mapping[int, int], reached: Mapping[int, int]) -> Left:
    """Return the offsets from `reached` to before `ends`, of each partition with any.

    >>> left_before({0: 10, 1: 10}, {0: 10, 1: 4})
    {1: OffsetRange(low=4, end=10)}
    """
    return {
        partition: OffsetRange(reached[partition], end)
        for partition, end in sorted(ends.items())
        if reached[partition] < end
    }


def describe_left(left: Left) -> str:
    """Return the offsets in words.

    >>> describe_left({1: OffsetRange(4, 1_000)})
    'left are offsets 4 to 999 of partition 1'
    """
    shown = [
        f"{at.low} to {at.end - 1} of partition {partition}"
        for partition, at in list(left.items())[:_SHOWN_PARTITIONS]
    ]
    more = len(left) - len(shown)
    return f"left are offsets {', '.join(shown)}" + (f" and {more} more" if more else "")


def _offsets(text: str) -> dict[int, int]:
    """Return the offsets by partition of a topic, as Spark's Kafka source writes them."""
    [offsets] = json.loads(text).values()
    return {int(number): at for number, at in offsets.items()}


def _with_trigger(writer: DataStreamWriter, every: timedelta | None) -> DataStreamWriter:
    if every is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{every.total_seconds():.3f} seconds")


def _run_until(writer: DataStreamWriter, stop: threading.Event) -> None:
    if stop.is_set():
        return
    query: StreamingQuery = writer.start()
    try:
        while not query.awaitTermination(_STOP_CHECK_SECONDS):
            if stop.is_set():
                break
    finally:
        query.stop()
