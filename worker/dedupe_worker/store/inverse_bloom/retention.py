"""The window of a table: how long it retains ids.

Each id that is put makes every older one a little less likely to be there. There is no age up to which all are, and the
oldest one left is there by luck. So the window of a table is the age at which half of the ids are lost: more than half
of the older ones are gone, more than half of the younger ones are known. It is the time of the put that is one
half-life (0.69 times the slots) behind the newest, found from marks that are made from time to time.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from dedupe_worker.store.inverse_bloom.sizing import half_life

_MARKS: Final = 64
"""Marks for each half-life, so that the window is at most a 64th too short."""


class Mark(NamedTuple):
    """`puts` ids had been put at `seen_ms`, when more came.

    That is by the clock by which ids age. The newest timestamp of their records was `newest_ms`. Times are Unix
    milliseconds.
    """

    puts: int
    seen_ms: int
    newest_ms: int


class Retention:
    """The marks of a table of so many slots, oldest first."""

    def __init__(self, slots: int, marks: Sequence[Mark] = ()) -> None:
        self._half_life = half_life(slots)
        self._step = max(1, self._half_life // _MARKS)
        self.marks = list(marks)

    def add(self, mark: Mark) -> None:
        """Add a mark before ids are put, if enough were put since the last one."""
        if self.marks and mark.puts - self.marks[-1].puts < self._step:
            return
        self.marks.append(mark)
        while len(self.marks) > 1 and self.marks[1].puts <= mark.puts - self._half_life:
            self.marks.pop(0)

    def forgets(self, puts: int) -> bool:
        """Return whether half of the first ids are lost, after so many puts."""
        return puts > self._half_life

    def horizon(self, puts: int) -> Mark | None:
        """Return the oldest mark that still has half of its ids, or more.

        `puts` is the present number of puts. None if there is no such mark.
        """
        return next((mark for mark in self.marks if mark.puts >= puts - self._half_life), None)
