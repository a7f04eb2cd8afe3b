"""Samples the producer and the workers during the deduplication, for the plots."""

import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from threading import Event
from types import TracebackType
from typing import Self

from dedupe_crds.status.worker import WorkerStatus
from dedupe_local.run.fleet import Fleet
from examples.flights.outcome import Sample, Timeline

_SAMPLE_SECONDS = 0.1


class Sampler:
    """Samples until its block ends.

    `began` is the zero of `timeline`, by `time.monotonic`.
    """

    def __init__(self, fleet: Fleet, sent: Callable[[], int], helper: Executor) -> None:
        self.began = time.monotonic()
        self._fleet = fleet
        self._sent = sent
        self._seen: list[tuple[float, int]] = []
        self._partitions = [Partition() for _ in fleet.views()]
        self._stop = Event()
        self._sampling = helper.submit(self._sample)

    @property
    def timeline(self) -> Timeline:
        """The samples until now."""
        return Timeline(
            sent=list(self._seen), samples=[list(each.samples) for each in self._partitions]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._stop.set()
        # An error of the block is the cause, so it takes precedence over an error here.
        with suppress(*([Exception] if kind else [])):
            self._sampling.result()

    def _sample(self) -> None:
        while True:
            last = self._stop.is_set()
            at_seconds = time.monotonic() - self.began
            self._seen.append((at_seconds, self._sent()))
            for partition, status in zip(self._partitions, self._fleet.statuses(), strict=True):
                partition.add(status, at_seconds)
            if last:
                return
            self._stop.wait(_SAMPLE_SECONDS)


class Partition:
    """The samples of one partition, with counts summed over its processes."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._status: WorkerStatus | None = None
        self._process = 0
        self._earlier = 0  # records of the earlier processes, by their last status

    def add(self, status: WorkerStatus | None, at_seconds: float) -> None:
        """Add a worker's status, unless it is None or the same object as before."""
        before = self._status
        if status is None or status is before:
            return
        if before is not None and status.started_at != before.started_at:
            self._process += 1
            self._earlier += before.counts.produced
        self._status = status
        self.samples.append(
            Sample(
                at_seconds=at_seconds,
                process=self._process,
                produced=self._earlier + status.counts.produced,
                window_seconds=status.window.seconds,
            )
        )
