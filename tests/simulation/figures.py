"""Counts of a run: faults, pairs of faults, sizes, speed."""

from collections import Counter
from itertools import combinations
from statistics import median

from rich.console import Console

from tests.simulation.outcome import Outcome
from tests.support.checker.checker import Repeats


class Figures:
    """The figures of the schedules so far."""

    def __init__(self) -> None:
        self.failed: list[Outcome] = []
        self._faults: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._records: list[int] = []
        self._sessions: list[int] = []
        self._fault_counts: list[int] = []
        self._repeats = Repeats()

    def add(self, outcome: Outcome) -> None:
        """Count one schedule."""
        if outcome.defects:
            self.failed.append(outcome)
        self._faults.update(outcome.faults)
        self._pairs.update(combinations(sorted(set(outcome.faults)), 2))
        self._records.append(outcome.records)
        self._sessions.append(outcome.sessions)
        self._fault_counts.append(len(outcome.faults))
        self._repeats += outcome.repeats

    @property
    def schedules(self) -> int:
        """Return how many schedules ran."""
        return len(self._records)

    def show(self, console: Console, seconds: float) -> None:
        """Print how often each fault, and each pair of faults, has happened."""
        if not self.schedules:
            return
        faults = sorted(self._faults, key=lambda each: (-self._faults[each], each))
        console.print("faults that happened, and in how many schedules each has met those before")
        width = max(5, len(str(max(self._pairs.values(), default=0))) + 1)
        for number, fault in enumerate(faults):
            met = [self._met(fault, other) for other in faults[:number]]
            counts = "".join(f"{each:{width}}" for each in met)
            console.print(f"{number + 1:3} {fault:26}{self._faults[fault]:8} |{counts}")
        possible = len(faults) * (len(faults) - 1) // 2
        console.print(
            f"{len(self._pairs)} of {possible} pairs of faults met\n"
            f"{self.schedules} schedules, {len(self.failed)} failed, "
            f"{self.schedules / seconds * 60:.0f} a minute; in the median {median(self._records):.0f} records, "
            f"{median(self._sessions):.0f} sessions, {median(self._fault_counts):.0f} faults\n{self._judged()}"
        )

    def _judged(self) -> str:
        """Say how many repeats may pass or not, which is what no judge can see."""
        repeats = self._repeats
        share = repeats.unjudged / max(1, repeats.all)
        return (
            f"{repeats.all} repeats, {repeats.unjudged} of them ({share:.1%}) not judged: they may pass or not; "
            f"{repeats.of_tables} of tables, which may lose {repeats.expected_to_pass:.1f}: {repeats.passed} passed"
        )

    def _met(self, one: str, other: str) -> int:
        first, second = sorted((one, other))
        return self._pairs[first, second]
