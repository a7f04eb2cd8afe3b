"""What the jobs that run in micro-batches share."""

import threading
from datetime import timedelta

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

_STOP_CHECK_SECONDS = 1


def with_trigger(writer: DataStreamWriter, every: timedelta | None) -> DataStreamWriter:
    """Take what is there now and end; with `every`, look again and again."""
    if every is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{every.total_seconds():.3f} seconds")


def run_until(writer: DataStreamWriter, stop: threading.Event) -> None:
    """Run a query until it ends or is to stop; a batch that is cut off is repeated by the next run."""
    query: StreamingQuery = writer.start()
    try:
        while not query.awaitTermination(_STOP_CHECK_SECONDS):
            if stop.is_set():
                break
    finally:
        query.stop()
