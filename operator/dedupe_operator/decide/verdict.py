"""Turn a verdict about a stream into a Kubernetes condition.

`conditions` and `unreconciled` judge; this module keeps the time of the last transition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dedupe_crds.formatting import ranges, shortened
from dedupe_crds.status.stream import Condition, ConditionStatus

_LONGEST_MESSAGE: Final = 4096
SUSPENDED: Final = "All workers are stopped; set spec.suspend to false to resume."


@dataclass(frozen=True, slots=True)
class Verdict:
    """A condition without its times; `holds` is None if it is Unknown."""

    type: str
    holds: bool | None
    reason: str
    message: str


def condition(
    verdict: Verdict, generation: int, earlier: Sequence[Condition], now: datetime
) -> Condition:
    """Return the condition of a verdict, with the time of its last transition."""
    by_verdict = {
        True: ConditionStatus.TRUE,
        False: ConditionStatus.FALSE,
        None: ConditionStatus.UNKNOWN,
    }
    status = by_verdict[verdict.holds]
    same = next(
        (each for each in earlier if each.type == verdict.type and each.status is status), None
    )
    return Condition(
        type=verdict.type,
        status=status,
        observed_generation=generation,
        last_transition_time=same.last_transition_time if same else now,
        reason=verdict.reason,
        message=shortened(verdict.message, _LONGEST_MESSAGE),
    )


def sentence(text: str) -> str:
    """Return a message as a sentence.

    >>> sentence("the topic is gone")
    'The topic is gone.'
    """
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!")) else ".")


def which(partitions: Sequence[int]) -> str:
    """Return partitions in words; empty without any.

    >>> which([0, 1, 2, 5])
    'partitions 0-2, 5'
    """
    return f"partition{'s' * (len(partitions) > 1)} {ranges(partitions)}" if partitions else ""
