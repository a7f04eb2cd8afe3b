"""Report each micro-batch of a streaming query: a line, the bar, and the metrics.

Spark calls a listener in its own thread. Invariant: when `batches_reported` returns, each batch that the query has
ended was reported.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from dedupe_pipeline.report.report import Report, Step

_LAST_EVENTS_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A micro-batch that is done.

    `records` were read, and `rows` written, None if that is not known. `offsets` were passed. `lag` are the offsets
    behind it that were in the topic when it began. Both count the markers of transactions, too.
    """

    number: int
    records: int
    rows: int | None
    offsets: int
    lag: int
    seconds: float


def batch_of(progress: Mapping[str, Any], rows: int | None) -> Batch:
    """Return the batch of a query's progress.

    >>> source = {"startOffset": '{"t": {"0": 5}}', "endOffset": '{"t": {"0": 9}}', "latestOffset": '{"t": {"0": 20}}'}
    >>> batch_of({"batchId": 3, "numInputRows": 4, "batchDuration": 1500, "sources": [source]}, rows=2)
    Batch(number=3, records=4, rows=2, offsets=4, lag=11, seconds=1.5)
    """
    starts, ends, latest = (
        sum(_offsets(source[name]) for source in progress["sources"])
        for name in ("startOffset", "endOffset", "latestOffset")
    )
    return Batch(
        number=progress["batchId"],
        records=progress["numInputRows"],
        rows=rows,
        offsets=max(0, ends - starts),
        lag=max(0, latest - ends),
        seconds=progress["batchDuration"] / 1000,
    )


def _offsets(text: str | None) -> int:
    """Return the sum of the offsets in a position of Spark's Kafka source."""
    topics = json.loads(text) if text and text != "None" else None
    return sum(at for partitions in (topics or {}).values() for at in partitions.values())


class BatchReports:
    """Reports batches as they end; `written` gets the rows of each from the job."""

    def __init__(
        self,
        action: str,
        report: Report,
        *,
        is_endless: bool,
        on_batch: Callable[[Batch], None],
    ) -> None:
        self._action = action
        self._report = report
        self._is_endless = is_endless
        self._on_batch = on_batch
        self._rows: dict[int, int] = {}
        self._records = self._offsets = 0

    def written(self, batch: int, rows: int) -> None:
        """Note the rows that a batch has written, before Spark reports the batch."""
        self._rows[batch] = rows

    def ended(self, progress: Mapping[str, Any]) -> None:
        """Report a batch."""
        batch = batch_of(progress, self._rows.pop(progress["batchId"], None))
        self._on_batch(batch)
        self._records += batch.records
        self._offsets += batch.offsets
        rows = "" if batch.rows is None else f", {batch.rows:,} rows"
        self._report.line(
            "batch",
            f"batch {batch.number}: {batch.records:,} records{rows} in {batch.seconds:.1f} s, "
            f"lag {batch.lag:,} offsets",
            batch=batch.number,
            records=batch.records,
            rows=batch.rows,
            seconds=batch.seconds,
            lag=batch.lag,
        )
        self._report.step(
            Step(
                action=self._action,
                done=self._offsets,
                total=None if self._is_endless else self._offsets + batch.lag,
                details=f"{self._records:,} records, lag {batch.lag:,} offsets",
                figures={"records": self._records, "lag": batch.lag},
            )
        )


@contextmanager
def batches_reported(
    session: SparkSession, reports: BatchReports, on_idle: Callable[[], None]
) -> Iterator[None]:
    """Report the batches of the block's queries."""
    listener = _Listener(reports, on_idle)
    session.streams.addListener(listener)
    try:
        yield
    finally:
        listener.wait_for_last_events()
        session.streams.removeListener(listener)


class _Listener(StreamingQueryListener):
    # The names are Spark's.
    def __init__(self, reports: BatchReports, on_idle: Callable[[], None]) -> None:
        self._reports = reports
        self._on_idle = on_idle
        self._running = 0
        self._changed = Condition()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802, ARG002
        with self._changed:
            self._running += 1

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._reports.ended(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802, ARG002
        self._on_idle()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802, ARG002
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def wait_for_last_events(self) -> None:
        """Wait for the end of each query that began; events come in order."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running, _LAST_EVENTS_SECONDS)
