"""Looks at the producer and the workers while records flow, for the plots."""

import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from threading import Event
from types import TracebackType
from typing import Self

from dedupe_crds.status.worker import WorkerStatus
from dedupe_local.run.fleet import Fleet
from examples.flights.outcome import Look, Timeline

_LOOK_SECONDS = 0.1


class Watch:
    """Looks until the block ends; then `timeline` has what was seen. `began` is its zero, by `time.monotonic`."""

    def __init__(self, fleet: Fleet, sent: Callable[[], int], helper: Executor) -> None:
        self.began = time.monotonic()
        self._fleet = fleet
        self._sent = sent
        self._seen: list[tuple[float, int]] = []
        self._partitions = [Partition() for _ in fleet.views()]
        self._stop = Event()
        self._looking = helper.submit(self._look_on)

    @property
    def timeline(self) -> Timeline:
        """What was seen so far."""
        return Timeline(
            sent=list(self._seen), looks=[list(each.looks) for each in self._partitions]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._stop.set()
        # What went wrong in the block says more than what comes of it here.
        with suppress(*([Exception] if kind else [])):
            self._looking.result()

    def _look_on(self) -> None:
        while True:
            last = self._stop.is_set()
            at_seconds = time.monotonic() - self.began
            self._seen.append((at_seconds, self._sent()))
            for partition, status in zip(self._partitions, self._fleet.statuses(), strict=True):
                partition.see(status, at_seconds)
            if last:
                return
            self._stop.wait(_LOOK_SECONDS)


class Partition:
    """The looks at one partition: each answer of its workers once, counts going on from one to the next."""

    def __init__(self) -> None:
        self.looks: list[Look] = []
        self._answer: WorkerStatus | None = None
        self._process = 0
        self._earlier = 0  # of the processes before this one, as far as they had told

    def see(self, status: WorkerStatus | None, at_seconds: float) -> None:
        """Take note of what a worker says; None says nothing, and what was heard before nothing new."""
        before = self._answer
        if status is None or status is before:
            return
        if before is not None and status.started_at != before.started_at:
            self._process += 1
            self._earlier += before.counts.produced
        self._answer = status
        self.looks.append(
            Look(
                at_seconds=at_seconds,
                process=self._process,
                produced=self._earlier + status.counts.produced,
                window_seconds=status.window.seconds,
            )
        )
