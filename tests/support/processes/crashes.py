"""Where a worker may be killed: each step of its loop at which a crash leaves something half done."""

from dataclasses import dataclass
from enum import StrEnum

VARIABLE = "CRASH_AT"


class Step(StrEnum):
    """A moment in a worker's life; the n-th time it comes, the process gets SIGKILL."""

    BEFORE_PRODUCE = "before-produce"
    """A batch was read and looked up, and nothing of it is sent."""
    BEFORE_COMMIT = "before-commit"
    """The broker holds the records of an open transaction."""
    BEFORE_STORE_WRITE = "after-commit-before-store-write"
    """Output and offsets are committed, and the store does not know."""
    AFTER_STORE_WRITE = "after-store-write"
    """The ids of a committed transaction are in memory, and not yet on disk."""
    DURING_FLUSH = "during-flush"
    """A file of ids has been begun, and is not finished."""
    DURING_CHECKPOINT = "during-checkpoint"
    """The files of a checkpoint are there, and its description is not."""
    DURING_RECONCILE = "during-reconcile"
    """A batch of the output topic was read, and is not in the store."""
    DURING_RECONCILE_FLUSHED = "during-reconcile-flushed"
    """The same, and what came before it is in the store and on disk."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Kill at the n-th time of a step, counted from 1."""

    step: Step
    time: int = 1

    @property
    def environment(self) -> dict[str, str]:
        """What tells a crashing worker where."""
        return {VARIABLE: f"{self.step}:{self.time}"}

    @classmethod
    def from_environment(cls, environment: dict[str, str]) -> "Crash":
        """The other way round. Raises KeyError or ValueError for what this did not make."""
        step, _, time = environment[VARIABLE].partition(":")
        return cls(Step(step), int(time))
