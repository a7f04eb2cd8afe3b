"""How far back a table remembers, from when its ids came.

Each id that is put makes every older one a little less likely to be there. There is no age up to which all are, and
the oldest one left is there by luck. So the window of a table is told as the age at which half of the ids are lost: of
those older than that more than half are gone, of the younger ones more than half are known. It is the time of the put
that lies one half-life (0.69 times the slots) behind the newest, found from marks that are made once in a while.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from dedupe_worker.store.inverse_bloom.sizing import half_life

_MARKS: Final = 64
"""For a half-life, so that the window is told a 64th too short at most."""


class Mark(NamedTuple):
    """`puts` ids had been put at `seen_ms`, when more came; the newest timestamp of their records was `newest_ms`.
    Times are Unix milliseconds."""

    puts: int
    seen_ms: int
    newest_ms: int


class History:
    """The marks of a table of so many slots, oldest first."""

    def __init__(self, slots: int, marks: Sequence[Mark] = ()) -> None:
        self._half_life = half_life(slots)
        self._step = max(1, self._half_life // _MARKS)
        self.marks = list(marks)

    def add(self, mark: Mark) -> None:
        """Note that ids are about to be put."""
        if self.marks and mark.puts - self.marks[-1].puts < self._step:
            return
        self.marks.append(mark)
        while len(self.marks) > 1 and self.marks[1].puts <= mark.puts - self._half_life:
            self.marks.pop(0)

    def forgets(self, puts: int) -> bool:
        """Whether half of the first ids are lost, after so many puts."""
        return puts > self._half_life

    def horizon(self, puts: int) -> Mark | None:
        """The oldest mark of which half of the ids, or more, are still there after so many puts; None without any."""
        return next((mark for mark in self.marks if mark.puts >= puts - self._half_life), None)
