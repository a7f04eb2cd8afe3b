"""Show the progress of `land` and `aggregate`, and serve their metrics."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import click
from pyspark.sql import SparkSession

from dedupe_crds.spec.stream import DedupeStream
from dedupe_pipeline.jobs.streaming import OnWritten
from dedupe_pipeline.progress.metrics import JobMetrics, serve_metrics
from dedupe_pipeline.progress.micro_batches import BatchReports, batches_reported
from dedupe_pipeline.report.report import Report

Command = TypeVar("Command", bound=Callable[..., Any])


def metrics_options(command: Command) -> Command:
    """Give a command the address at which Prometheus finds its metrics."""
    for decorate in (
        click.option(
            "--metrics-host",
            default="127.0.0.1",
            show_default=True,
            metavar="HOST",
            help="Address on which --metrics-port listens; 0.0.0.0 for all.",
        ),
        click.option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            help="Serve Prometheus metrics on this port (/metrics); 0 takes a free one.",
        ),
    ):
        command = decorate(command)
    return command


class StreamingJob:
    """Shows the progress of a streaming job.

    `target` is the directory or table that it fills.
    """

    def __init__(
        self,
        name: str,
        stream: DedupeStream,
        target: str,
        *,
        every: timedelta | None,
        report: Report,
    ) -> None:
        self._name = name
        self._stream = stream.shown
        self._target = target
        self._every = every
        self._report = report

    def serve(self, host: str, port: int | None) -> JobMetrics:
        """Return the metrics, served at the address if there is a port.

        Raises RequestRefused if the address cannot be used.
        """
        metrics = JobMetrics(command=self._name, stream=self._stream, target=self._target)
        if port is not None:
            server = serve_metrics(metrics, host, port)
            taken = int(server.effective_port)
            self._report.line("metrics", f"metrics: http://{server.address}/metrics", port=taken)
        return metrics

    @contextmanager
    def watched(self, session: SparkSession, metrics: JobMetrics) -> Iterator[OnWritten]:
        """Report the batches of the block; yield what the job tells its rows to."""
        reports = BatchReports(
            self._name,
            self._report,
            is_endless=self._every is not None,
            on_batch=metrics.batch_done,
        )
        with batches_reported(session, reports, metrics.idle):
            yield reports.written
