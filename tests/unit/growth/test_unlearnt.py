"""The number of records that workers of new partitions have left to learn."""

import pytest

from dedupe_crds.status.worker import Phase, ReconcileStatus, WorkerStatus
from dedupe_growth.unlearnt import LEARNING, is_learning, unlearnt
from dedupe_worker.recovery.learning import REASON
from tests.unit.operator.objects import worker_status


def reading(
    partition: int, reason: str, phase: Phase = Phase.RECONCILING, remaining: int = 70
) -> WorkerStatus:
    status = worker_status(partition, phase=phase)
    progress = ReconcileStatus(reason=reason, records=1, remaining=remaining, seconds=1.0)
    return status.model_copy(update={"reconcile": progress})


def test_it_is_what_workers_say_of_themselves() -> None:
    assert LEARNING == REASON
    found = unlearnt([worker_status(0), reading(1, LEARNING), reading(2, "Tail"), None])
    assert found == {0: 0, 1: 70}


def test_a_worker_that_has_read_all_there_is_says_so() -> None:
    found = unlearnt([reading(4, LEARNING, remaining=700), reading(5, LEARNING, remaining=0)])
    assert found == {4: 700, 5: 0}


@pytest.mark.parametrize(
    "silent",
    [
        None,
        worker_status(4, phase=Phase.STARTING),
        worker_status(4, phase=Phase.STOPPING),
        reading(4, "Tail", remaining=0),
        reading(4, "NewStore", remaining=0),
    ],
)
def test_a_worker_that_does_something_else_says_nothing(silent: WorkerStatus | None) -> None:
    """Its own tail may be read, and all that it must learn be left."""
    assert unlearnt([silent]) == {}


def test_a_worker_that_runs_has_learnt_all_whatever_it_read_before() -> None:
    assert unlearnt([reading(3, LEARNING, Phase.RUNNING)]) == {3: 0}


@pytest.mark.parametrize(
    ("status", "learns"),
    [
        (None, False),
        (reading(1, LEARNING), True),
        (reading(1, "Tail"), False),
        (reading(1, LEARNING, Phase.RUNNING), False),
        (reading(1, LEARNING, Phase.FAILED), False),
        (worker_status(1, phase=Phase.STARTING), False),
    ],
)
def test_one_learns_while_it_reads_for_a_growth(status: WorkerStatus | None, learns: bool) -> None:
    assert is_learning(status) is learns
