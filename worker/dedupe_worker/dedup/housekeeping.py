"""Do the periodic work of a running loop, between two of its batches.

`Session` calls it after each step of the loop. Invariant: the store changes only between two transactions.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from dedupe_worker.clock import Clock
from dedupe_worker.status import WorkerState, window_status
from dedupe_worker.store.api import IdStore

_STORE_SECONDS: Final = 1.0
_TOPIC_CHECK_SECONDS: Final = 10.0
# The share of the time for reading ids into the Bloom filters of a store that was opened after a crash.
_REFILL_SHARE: Final = 0.25


class Housekeeping:
    """Periodic work of one session: commands, Bloom filters, ageing, status, topics."""

    def __init__(
        self,
        store: IdStore,
        worker_state: WorkerState,
        clock: Clock,
        *,
        alert_below: timedelta,
        run_commands: Callable[[], None],
        check_topics: Callable[[], None],
    ) -> None:
        self._store = store
        self._worker_state = worker_state
        self._monotonic, self._time_ms = clock.monotonic, clock.time_ms
        self._alert_below = alert_below
        self._run_commands = run_commands
        self._check_topics = check_topics
        self._store_due = self._topics_due = self._refilled = self._monotonic()
        self._refilling = True

    def run(self, *, in_transaction: bool) -> None:
        """Do the work that is due. Raises StreamError."""
        now = self._monotonic()
        if not in_transaction:
            self._run_commands()
            if self._refilling:
                self._refilling = self._store.refill((now - self._refilled) * _REFILL_SHARE)
                self._refilled = self._monotonic()
        if now >= self._store_due:
            if not in_transaction:
                self._store.age(self._time_ms())  # ids age without traffic, too
            self._worker_state.window = window_status(
                self._store, self._alert_below, self._time_ms()
            )
            self._store_due = now + _STORE_SECONDS
        if now >= self._topics_due:
            self._check_topics()
            self._topics_due = now + _TOPIC_CHECK_SECONDS
