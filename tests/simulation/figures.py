"""Counts of a run: faults, pairs of faults, sizes, speed."""

from collections import Counter
from itertools import combinations
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.simulation.outcome import Outcome


class Figures:
    """The figures of the schedules so far."""

    def __init__(self) -> None:
        self.failed: list[Outcome] = []
        self._faults: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._records: list[int] = []
        self._sessions: list[int] = []
        self._fault_counts: list[int] = []

    def add(self, outcome: Outcome) -> None:
        """Count one schedule."""
        if outcome.defects:
            self.failed.append(outcome)
        self._faults.update(outcome.faults)
        self._pairs.update(combinations(sorted(set(outcome.faults)), 2))
        self._records.append(outcome.records)
        self._sessions.append(outcome.sessions)
        self._fault_counts.append(len(outcome.faults))

    @property
    def schedules(self) -> int:
        """Return how many schedules ran."""
        return len(self._records)

    def show(self, console: Console, seconds: float, *, pairs: int) -> None:
        """Print the tables; of the pairs of faults the rarest ones."""
        if not self.schedules:
            return
        faults = Table("fault", "schedules' steps", title="faults that happened")
        for name, count in self._faults.most_common():
            faults.add_row(name, str(count))
        console.print(faults)
        possible = len(self._faults) * (len(self._faults) - 1) // 2
        rare = Table(
            "pair",
            "schedules",
            title=f"{len(self._pairs)} of {possible} pairs of faults met; the rarest",
        )
        for pair, count in sorted(self._pairs.items(), key=lambda each: (each[1], each[0]))[:pairs]:
            rare.add_row(" + ".join(pair), str(count))
        console.print(rare)
        console.print(
            f"{self.schedules} schedules, {len(self.failed)} failed, "
            f"{self.schedules / seconds * 60:.0f} a minute; in the median {median(self._records):.0f} records, "
            f"{median(self._sessions):.0f} sessions, {median(self._fault_counts):.0f} faults"
        )
