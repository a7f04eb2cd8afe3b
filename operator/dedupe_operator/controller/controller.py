"""Looks at the streams that are due, several at a time."""

import logging
import random
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from dedupe_operator import metrics
from dedupe_operator.controller.work_queue import Key, WorkQueue
from dedupe_operator.errors import KubernetesError, LostLeadership

_SETTLE_SECONDS: Final = 0.1  # what changes together is looked at once
_LONGEST_WAIT_SECONDS: Final = 1.0
_FIRST_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY_SECONDS: Final = 60.0
_JITTER: Final = 0.1
_STOP_SECONDS: Final = 10.0

log = logging.getLogger(__name__)

Look = Callable[[Key], float | None]


class Controller:
    """Threads that share a queue. `look` brings a stream nearer to what is wanted, and says when
    to look again; what it raises is logged and tried again, ever more slowly."""

    def __init__(self, look: Look, *, threads: int, lost: Callable[[], None]) -> None:
        self._look = look
        self._lost = lost
        self._queue = WorkQueue()
        self._stop = Event()
        self._last_end = time.monotonic()
        self._threads = [
            Thread(target=self._work, name=f"reconcile-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Begin to look."""
        self._last_end = time.monotonic()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the looks in progress."""
        self._stop.set()
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def due(self, key: Key) -> None:
        """A stream, or what belongs to it, has changed."""
        self._queue.add(key, time.monotonic() + _SETTLE_SECONDS)

    @property
    def idle_seconds(self) -> float:
        """Time since the last look ended; 0 if there is nothing to look at."""
        return time.monotonic() - self._last_end if len(self._queue) else 0.0

    def _work(self) -> None:
        while not self._stop.is_set():
            key = self._queue.take(time.monotonic())
            if key is None:
                self._queue.wait(time.monotonic(), _LONGEST_WAIT_SECONDS)
                continue
            self._take_a_look(key)

    def _take_a_look(self, key: Key) -> None:
        result, wait = "failed", None
        try:
            with metrics.RECONCILE_SECONDS.time():
                wait = self._look(key)
            result = "ok"
        except LostLeadership as error:
            log.error("no longer the leader: %s", error)  # expected, and explained
            self._lost()
        except KubernetesError as error:
            wait = self._backoff(key)
            log.warning("%s/%s: %s: %s; again in %.0f s", *key, error.reason, error, wait)
        except Exception:
            wait = self._backoff(key)
            log.exception("%s/%s: a look failed; again in %.0f s", *key, wait)
        metrics.RECONCILES.labels(result=result).inc()
        metrics.LAST_RECONCILE.set_to_current_time()
        self._last_end = time.monotonic()
        due = None if wait is None else self._last_end + wait * random.uniform(1 - _JITTER, 1)  # noqa: S311 # spreads the load
        self._queue.done(key, due=due, failed=result == "failed")
        metrics.STREAMS.set(len(self._queue))

    def _backoff(self, key: Key) -> float:
        doubled = _FIRST_RETRY_SECONDS * 2.0 ** min(self._queue.failures(key), 10)
        return min(_LONGEST_RETRY_SECONDS, doubled)
