"""The time between two commits of a stream that has no lag.

All partitions of a stream commit to one group, so to one broker: at 25 ms and 1,000 partitions that is 40,000 commits a
second, of a few records each. The loop tells this class of each commit, and reads for as long as it says.
"""

from typing import Final

_FEW_RECORDS: Final = 10
_MANY_RECORDS: Final = 100


class CommitPace:
    """Doubles the interval while commits have few records, halves it while many.

    It stays between the `shortest` and the `longest` seconds. After a pause in the input it is the shortest, so that a
    record that comes alone is not held back.
    """

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest = shortest
        self._longest = max(shortest, longest)
        self.seconds = shortest

    def committed(self, records: int) -> None:
        """Adapt to a commit of so many records."""
        if records < _FEW_RECORDS:
            self.seconds = min(2 * self.seconds, self._longest)
        elif records >= _MANY_RECORDS:
            self.seconds = max(self.seconds / 2, self._shortest)

    def paused(self) -> None:
        """Begin again, because no record has come for an interval."""
        self.seconds = self._shortest
