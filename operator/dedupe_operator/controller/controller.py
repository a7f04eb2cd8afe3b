"""Reconcile the due streams in several threads, with back-off after errors.

The process starts it when it is the leader. A stream is never reconciled by two threads at a time.
"""

import logging
import random
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from dedupe_crds.deadline import Deadline
from dedupe_operator import metrics
from dedupe_operator.controller.work_queue import Key, WorkQueue
from dedupe_operator.errors import KubernetesError, LostLeadership

_DEBOUNCE_SECONDS: Final = 0.1  # changes at the same time cause one reconcile
_LONGEST_WAIT_SECONDS: Final = 1.0
_FIRST_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY_SECONDS: Final = 60.0
_JITTER: Final = 0.1
_STOP_SECONDS: Final = 10.0

log = logging.getLogger(__name__)

Reconcile = Callable[[Key], float | None]


class Controller:
    """Threads that share a queue.

    `reconcile` returns the seconds until its next call for that stream, None if the stream is gone. Its errors are
    logged and it is retried, with exponential back-off. `lost` is called when the process is no longer the leader.
    `clock` returns seconds and never goes backward.
    """

    def __init__(
        self,
        reconcile: Reconcile,
        *,
        threads: int,
        lost: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reconcile = reconcile
        self._lost = lost
        self._clock = clock
        self._queue = WorkQueue()
        self._stop = Event()
        self._last_end = self._clock()
        self._threads = [
            Thread(target=self._work, name=f"reconcile-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        self._last_end = self._clock()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop after the reconciles in progress, within a few seconds."""
        self._stop.set()
        deadline = Deadline(_STOP_SECONDS, clock=self._clock)
        for thread in self._threads:
            thread.join(deadline.remaining())

    def due(self, key: Key) -> None:
        """Enqueue a stream that has changed, or whose objects have."""
        self._queue.add(key, self._clock() + _DEBOUNCE_SECONDS)

    @property
    def idle_seconds(self) -> float:
        """Return the seconds since the last reconcile ended, 0 without any stream."""
        return self._clock() - self._last_end if len(self._queue) else 0.0

    def _work(self) -> None:
        while not self._stop.is_set():
            key = self._queue.take(self._clock())
            if key is None:
                self._queue.wait(self._clock(), _LONGEST_WAIT_SECONDS)
                continue
            self._reconcile_one(key)

    def _reconcile_one(self, key: Key) -> None:
        result, wait = "failed", None
        try:
            with metrics.RECONCILE_SECONDS.time():
                wait = self._reconcile(key)
            result = "ok"
        except LostLeadership as error:
            log.error("no longer the leader: %s", error)  # expected; its message is enough
            self._lost()
        except KubernetesError as error:
            wait = self._backoff(key)
            log.warning("%s/%s: %s: %s; retrying in %.0f s", *key, error.reason, error, wait)
        except Exception:
            wait = self._backoff(key)
            log.exception("%s/%s: reconcile failed; retrying in %.0f s", *key, wait)
        metrics.RECONCILES.labels(result=result).inc()
        metrics.LAST_RECONCILE.set_to_current_time()
        self._last_end = self._clock()
        due = None if wait is None else self._last_end + wait * random.uniform(1 - _JITTER, 1)  # noqa: S311 # spreads the load
        self._queue.done(key, due=due, failed=result == "failed")
        metrics.STREAMS.set(len(self._queue))

    def _backoff(self, key: Key) -> float:
        doubled = _FIRST_RETRY_SECONDS * 2.0 ** min(self._queue.failures(key), 10)
        return min(_LONGEST_RETRY_SECONDS, doubled)
