"""Judge a stream that is paused, is refused, or can't be observed."""

from collections.abc import Sequence
from datetime import datetime

from dedupe_crds.status.stream import Condition
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.verdict import SUSPENDED, Verdict, condition, sentence


def paused(
    *,
    generation: int,
    earlier: Sequence[Condition],
    now: datetime,
    ready: int | None,
    partitions: int,
) -> list[Condition]:
    """Return the conditions of a paused stream: what is not judged is Unknown.

    `ready` is the number of ready partitions, None of a suspended stream.
    """
    message = (
        "The operator changes, repairs and rolls out nothing until the annotation "
        "dedupestream.io/pause-reconciliation is removed."
    )
    verdicts = [Verdict("ReconciliationPaused", True, "Annotated", message)]
    if ready is None:
        verdicts.append(Verdict("Ready", False, "Suspended", SUSPENDED))
    elif partitions:
        counted = f"{ready} of {partitions} partitions are ready"
        all_ready = ready == partitions
        reason = "AllPartitionsReady" if all_ready else "PartitionsNotReady"
        clause = "" if all_ready else ", and nothing is repaired while reconciliation is paused"
        verdicts.append(Verdict("Ready", all_ready, reason, f"{counted}{clause}."))
    not_judged = "It is not judged while reconciliation is paused."
    verdicts += _unknown(earlier, verdicts, "ReconciliationPaused", not_judged)
    return [condition(verdict, generation, earlier, now) for verdict in verdicts]


def unfinished(
    problem: Problem, *, generation: int, earlier: Sequence[Condition], now: datetime
) -> list[Condition]:
    """Return the conditions of a stream of which no pass can be finished.

    Its workers run as they are. The operator does not know how they are, so it judges nothing.
    """
    message = f"The operator can't finish a pass over the stream. {sentence(problem.message)}"
    verdicts = [
        Verdict("Ready", None, problem.reason, message),
        Verdict("Degraded", True, problem.reason, message),
    ]
    not_judged = "It is not known: see Degraded."
    verdicts += _unknown(earlier, verdicts, problem.reason, not_judged)
    return [condition(verdict, generation, earlier, now) for verdict in verdicts]


def _unknown(
    earlier: Sequence[Condition], judged: Sequence[Verdict], reason: str, message: str
) -> list[Verdict]:
    """Return that each earlier condition that is not judged is Unknown."""
    types = {verdict.type for verdict in judged}
    return [Verdict(each.type, None, reason, message) for each in earlier if each.type not in types]


def refused(
    refusal: Problem, *, generation: int, earlier: Sequence[Condition], now: datetime
) -> list[Condition]:
    """Return the conditions of a stream that is not reconciled by its manifest.

    The API server accepted it: by another version of the schema, or because the platform allows less.
    """
    # Stalled is there only while it is True, as kstatus wants it.
    others = [each for each in earlier if each.type not in {"Ready", "Degraded", "Stalled"}]
    verdicts = (
        Verdict("Ready", False, refusal.reason, refusal.message),
        Verdict("Degraded", True, refusal.reason, refusal.message),
        Verdict("Stalled", True, refusal.reason, refusal.message),
    )
    return [*(condition(verdict, generation, earlier, now) for verdict in verdicts), *others]
