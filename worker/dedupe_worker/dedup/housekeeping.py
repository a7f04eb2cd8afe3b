"""Do the periodic work of a running loop, between two of its batches.

`Session` calls it after each step of the loop. Invariant: the store changes only between two transactions.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from dedupe_crds.clock import Clock
from dedupe_worker.dedup.window import Window
from dedupe_worker.status import WorkerState, window_status
from dedupe_worker.store.metadata import StoreMetadata

_STORE_SECONDS: Final = 1.0
_TOPIC_CHECK_SECONDS: Final = 10.0
_FOREIGN_SECONDS: Final = 10.0
# So long after the last write to the store, when nothing was written since.
_FLUSH_SECONDS: Final = 600.0
# The share of the time for reading ids into the Bloom filters of a store that was opened after a crash.
_REFILL_SHARE: Final = 0.25
# Also after a process was frozen for hours.
_LONGEST_REFILL_SECONDS: Final = 1.0


class Housekeeping:
    """Periodic work of one session: commands, Bloom filters, ageing, status, topics."""

    def __init__(
        self,
        window: Window,
        worker_state: WorkerState,
        clock: Clock,
        *,
        alert_below: timedelta,
        run_commands: Callable[[], None],
        check_topics: Callable[[], None],
        read_foreign: Callable[[], object],
    ) -> None:
        self._window = window
        self._store = window.store
        self._worker_state = worker_state
        self._monotonic, self._time_ms = clock.monotonic, clock.time_ms
        self._alert_below = alert_below
        self._run_commands = run_commands
        self._check_topics = check_topics
        self._read_foreign = read_foreign
        self._store_due = self._topics_due = self._refilled = self._monotonic()
        self._foreign_due = self._topics_due
        self._refilling = True
        self._written: StoreMetadata | None = None
        self._flushed: StoreMetadata | None = None
        self._flush_due = self._store_due
        self._show_window(self._time_ms())  # not that of the session before

    def run(self, *, in_transaction: bool) -> None:
        """Do the work that is due. Raises StreamError."""
        now = self._monotonic()
        if not in_transaction:
            self._run_commands()
            if self._refilling:
                self._refilling = self._store.refill(
                    min((now - self._refilled) * _REFILL_SHARE, _LONGEST_REFILL_SECONDS)
                )
                self._refilled = self._monotonic()
            if now >= self._foreign_due:
                self._read_foreign()
                self._foreign_due = self._monotonic() + _FOREIGN_SECONDS
        if now >= self._store_due:
            if self._window.ageing:
                read = self._worker_state.input
                self._window.ageing.advance(read.next_offset, read.end_offset)
            now_ms = self._time_ms()
            if not in_transaction:
                self._window.age(now_ms)  # ids age without traffic, too
                self._flush_at_rest(now)
            self._show_window(now_ms)
            self._store_due = now + _STORE_SECONDS
        if now >= self._topics_due:
            self._check_topics()
            self._topics_due = now + _TOPIC_CHECK_SECONDS

    def _show_window(self, now_ms: int) -> None:
        self._worker_state.window = window_status(
            self._store, self._alert_below, self._window.age_ms(now_ms)
        )

    def _flush_at_rest(self, now: float) -> None:
        """Flush a store that rests, once: the group's committed offset expires at rest.

        Then the store alone knows how far the input was read, and a kill must not take that.
        """
        latest = self._store.metadata
        if latest != self._written:
            self._written, self._flush_due = latest, now + _FLUSH_SECONDS
        elif latest != self._flushed and now >= self._flush_due:
            self._store.flush()
            self._written = self._flushed = self._store.metadata
