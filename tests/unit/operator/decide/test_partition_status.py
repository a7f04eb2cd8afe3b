"""The status of one partition."""

from datetime import timedelta

import pytest

from dedupe_crds.status.stream import PartitionPhase
from dedupe_crds.status.worker import Phase, ReconcileStatus
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.partition_status import PartitionView, status_of
from dedupe_operator.decide.volume_claims import ClaimChoice
from tests.unit.operator.objects import partition_status, pod, restore, worker_status

CHOICE = ClaimChoice(name="orders-2-1", restore=restore(), is_new=False)
PROBLEM = Problem(reason="DiskFull", message="make room")


def view(**known: object) -> PartitionView:
    return PartitionView(partition=2, claim=CHOICE, **known)  # type: ignore[arg-type] # tests name what they mean


@pytest.mark.parametrize(
    ("seen", "phase"),
    [
        (view(pod=pod()), PartitionPhase.RUNNING),
        (view(pod=pod(), suspended=True, problem=PROBLEM), PartitionPhase.RUNNING),
        (view(suspended=True, problem=PROBLEM), PartitionPhase.SUSPENDED),
        (view(pod=pod(ready=False), problem=PROBLEM), PartitionPhase.FAILED),
        (
            view(pod=pod(ready=False), worker=worker_status(phase=Phase.RECONCILING)),
            PartitionPhase.RECONCILING,
        ),
        (
            view(pod=pod(ready=False), worker=worker_status(phase=Phase.STARTING)),
            PartitionPhase.STARTING,
        ),
        (view(), PartitionPhase.STARTING),
        (view(provisioned=False, problem=PROBLEM), PartitionPhase.PROVISIONING),
        (view(provisioned=False, suspended=True), PartitionPhase.PROVISIONING),
    ],
)
def test_the_phase_says_where_a_partition_is(seen: PartitionView, phase: PartitionPhase) -> None:
    status = status_of(seen, None)
    assert status.phase is phase
    assert status.ready == (phase is PartitionPhase.RUNNING)


def test_a_partition_has_its_number_node_volume_and_cause() -> None:
    status = status_of(view(pod=pod(ready=False), problem=PROBLEM), None)
    assert status.partition == 2
    assert status.node_name == "node-1"
    assert status.persistent_volume_claim == "orders-2-1"
    assert status.restore == CHOICE.restore
    assert status.message == "make room"


def test_figures_are_the_workers_made_coarse() -> None:
    worker = worker_status(
        lag_messages=12345, duplicates=6789, window=timedelta(days=3, hours=5, seconds=1)
    )
    status = status_of(view(pod=pod(), worker=worker), None)
    assert status.lag_messages == 12000
    assert status.duplicates == 6700
    assert status.window == timedelta(days=3)
    assert status.window_truncated is False


def test_a_lag_below_zero_is_none_and_an_unknown_one_stays_unknown() -> None:
    assert status_of(view(worker=worker_status(lag_messages=-1)), None).lag_messages == 0
    assert status_of(view(worker=worker_status(lag_messages=None)), None).lag_messages is None


def test_figures_of_a_silent_worker_stay_as_they_were() -> None:
    recorded = partition_status(
        2, window=timedelta(days=2), window_truncated=True, duplicates=7, lag_messages=3
    )
    status = status_of(view(), recorded)
    assert (status.window, status.window_truncated) == (timedelta(days=2), True)
    assert (status.duplicates, status.lag_messages) == (7, 3)
    nothing = status_of(view(), None)
    assert (nothing.window, nothing.duplicates, nothing.lag_messages) == (None, None, None)


def test_how_far_a_reconcile_is_and_how_long_it_will_take() -> None:
    done = ReconcileStatus(reason="Tail", records=200, remaining=600, seconds=5.0)
    worker = worker_status(phase=Phase.RECONCILING).model_copy(update={"reconcile": done})
    shown = status_of(view(pod=pod(ready=False), worker=worker), None)
    assert (shown.reconciling, shown.reconcile_remaining) == (600, timedelta(seconds=15))
    running = worker.model_copy(update={"phase": Phase.RUNNING})
    after = status_of(view(pod=pod(), worker=running), None)
    assert (after.reconciling, after.reconcile_remaining) == (None, None)
    begun = done.model_copy(update={"records": 0, "seconds": 0.0})
    first = worker.model_copy(update={"reconcile": begun})
    assert status_of(view(worker=first), None).reconcile_remaining is None
