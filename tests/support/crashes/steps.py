"""Steps of a worker's loop at which a crash leaves something half done.

`crashing_worker` kills itself there.
"""

from dataclasses import dataclass
from enum import StrEnum

VARIABLE = "CRASH_AT"


class Step(StrEnum):
    """A step of a worker; when it is reached the n-th time, the process gets SIGKILL."""

    BEFORE_PRODUCE = "before-produce"
    """A batch was read and looked up; nothing of it is sent."""
    BEFORE_COMMIT = "before-commit"
    """The broker holds the records of an open transaction."""
    BEFORE_STORE_WRITE = "after-commit-before-store-write"
    """Output and offsets are committed; the store lacks the ids."""
    AFTER_STORE_WRITE = "after-store-write"
    """The ids of a committed transaction are in memory, but not on disk."""
    DURING_FLUSH = "during-flush"
    """A file of ids is begun but not finished."""
    DURING_CHECKPOINT = "during-checkpoint"
    """The files of a checkpoint exist, but not its description."""
    DURING_RECONCILE = "during-reconcile"
    """A batch of the output topic was read, but is not in the store."""
    DURING_RECONCILE_FLUSHED = "during-reconcile-flushed"
    """The same, and all earlier batches are on disk."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Kill when a step is reached the n-th time, counted from 1."""

    step: Step
    time: int = 1

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that pass this to a worker."""
        return {VARIABLE: f"{self.step}:{self.time}"}

    @classmethod
    def from_environment(cls, environment: dict[str, str]) -> "Crash":
        """Read it from environment variables.

        Raises KeyError or ValueError if they are not of `environment`.
        """
        step, _, time = environment[VARIABLE].partition(":")
        return cls(Step(step), int(time))
