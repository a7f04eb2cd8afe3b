"""Queue of streams by due time: each stream once, for one thread at a time.

The controller's threads take from it; kopf's handlers add to it.
"""

import heapq
import itertools
import threading
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_NEVER: Final = float("inf")


class Key(NamedTuple):
    """The namespace and name of a stream."""

    namespace: str
    name: str


@dataclass(slots=True)
class _Entry:
    due: float = _NEVER
    busy: bool = False
    again: float = _NEVER  # when it is due after the reconcile in progress
    failures: int = 0


@dataclass(slots=True)
class WorkQueue:
    """Due times, by the caller's clock. Safe to use from any thread."""

    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _heap: list[tuple[float, int, Key]] = field(default_factory=list)
    _ticket: "itertools.count[int]" = field(default_factory=itertools.count)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, key: Key, due: float) -> None:
        """Make a stream due at `due`, unless it is due earlier already."""
        with self._changed:
            entry = self._entries.setdefault(key, _Entry())
            if entry.busy:
                entry.again = min(entry.again, due)
            elif due < entry.due:
                self._schedule(key, entry, due)

    def take(self, now: float) -> Key | None:
        """Take a due stream, exclusively until it is `done`; None if no stream is due."""
        with self._changed:
            while self._heap and self._heap[0][0] <= now:
                due, _, key = heapq.heappop(self._heap)
                entry = self._entries.get(key)
                if entry is not None and not entry.busy and entry.due == due:
                    entry.busy, entry.due = True, _NEVER
                    return key
            return None

    def done(self, key: Key, *, due: float | None, failed: bool = False) -> None:
        """Return a stream: due again, or removed unless it was added meanwhile."""
        with self._changed:
            entry = self._entries[key]
            entry.busy = False
            entry.failures = entry.failures + 1 if failed else 0
            again, entry.again = entry.again, _NEVER
            if due is not None:
                again = min(again, due)
            if again == _NEVER:
                del self._entries[key]
            else:
                self._schedule(key, entry, again)

    def failures(self, key: Key) -> int:
        """Return how often in a row a stream has failed."""
        with self._changed:
            entry = self._entries.get(key)
            return entry.failures if entry else 0

    def wait(self, now: float, at_most_seconds: float) -> None:
        """Wait until a stream may be due."""
        with self._changed:
            due = self._heap[0][0] if self._heap else _NEVER
            self._changed.wait(max(0.0, min(due - now, at_most_seconds)))

    def __len__(self) -> int:
        with self._changed:
            return len(self._entries)

    def _schedule(self, key: Key, entry: _Entry, due: float) -> None:
        entry.due = due
        heapq.heappush(self._heap, (due, next(self._ticket), key))
        self._changed.notify()
