"""Run a Spark query in micro-batches, for `land` and `aggregate`."""

import threading
from datetime import timedelta

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

_STOP_CHECK_SECONDS = 1


def with_trigger(writer: DataStreamWriter, every: timedelta | None) -> DataStreamWriter:
    """Process the present records and end; with `every`, repeat at that interval."""
    if every is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{every.total_seconds():.3f} seconds")


def run_until(writer: DataStreamWriter, stop: threading.Event) -> None:
    """Run a query until it ends or `stop` is set.

    The next run repeats a batch that was interrupted.
    """
    query: StreamingQuery = writer.start()
    try:
        while not query.awaitTermination(_STOP_CHECK_SECONDS):
            if stop.is_set():
                break
    finally:
        query.stop()
