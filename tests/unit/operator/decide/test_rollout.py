"""Which workers may be changed now."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dedupe_operator.decide.drift import is_as_wanted, with_wanted_hash
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.decide.rollout import (
    WorkerState,
    is_stuck,
    may_change,
    worker_state,
)
from dedupe_operator.kubernetes.names import Object
from tests.unit.operator.objects import pod, stateful_set

RUNNING = WorkerState(current=True, rolled_out=True, idle=False)
OUTDATED = WorkerState(current=False, rolled_out=True, idle=False)
STARTING = WorkerState(current=True, rolled_out=False, idle=False)
BROKEN = WorkerState(current=False, rolled_out=False, idle=False)
STOPPED = WorkerState(current=False, rolled_out=True, idle=True)
MOVED = WorkerState(current=False, rolled_out=False, idle=False, moves=True)
states = st.builds(
    WorkerState,
    current=st.booleans(),
    rolled_out=st.booleans(),
    idle=st.booleans(),
    moves=st.booleans(),
)


def state_of(live: Object | None, its_pod: Object | None, wanted: Object) -> WorkerState:
    current = live is not None and is_as_wanted(live, wanted)
    return worker_state(live, its_pod, wanted, current=current)


def wanted(replicas: int = 1, image: str = "b") -> Object:
    return with_wanted_hash(
        {"metadata": {"name": "orders-0"}, "spec": {"replicas": replicas, "image": image}}
    )


def applied(one: Object, *, generation: int = 1, observed: int | None = None) -> Object:
    """A StatefulSet that was applied as it is wanted, and seen by its controller."""
    live = stateful_set(generation=generation, observed=observed)
    live["metadata"]["annotations"] = one["metadata"]["annotations"]
    live["spec"] = dict(one["spec"])
    return live


def test_nothing_changes_while_all_are_as_wanted() -> None:
    assert may_change({0: RUNNING, 1: STARTING}) == set()


def test_ready_workers_are_changed_one_at_a_time() -> None:
    assert may_change({0: OUTDATED, 1: OUTDATED, 2: OUTDATED}) == {0}
    assert may_change({0: RUNNING, 1: OUTDATED, 2: OUTDATED}) == {1}


def test_a_version_that_cant_start_stops_at_the_first_partition() -> None:
    assert may_change({0: STARTING, 1: OUTDATED, 2: OUTDATED}) == set()


def test_one_that_learns_is_not_waited_for() -> None:
    assert may_change({0: OUTDATED, 1: OUTDATED, 2: STARTING}, besides={2}) == {0}
    assert may_change({0: STARTING, 1: OUTDATED, 2: STARTING}, besides={2}) == set()


def test_the_partition_a_bad_version_stopped_at_is_mended_first() -> None:
    assert may_change({0: BROKEN, 1: OUTDATED}) == {0}


def test_a_bad_version_stops_at_one_partition_although_others_are_not_ready_for_a_moment() -> None:
    assert may_change({0: OUTDATED, 1: BROKEN, 2: BROKEN}) == {1}
    assert may_change({0: OUTDATED, 1: STARTING, 2: BROKEN}) == set()


def test_once_a_worker_is_ready_as_wanted_all_broken_ones_are_mended() -> None:
    assert may_change({0: OUTDATED, 1: RUNNING, 2: BROKEN, 3: BROKEN}) == {2, 3}


def test_a_lost_volume_waits_for_no_other_partition() -> None:
    assert may_change({0: STARTING, 1: MOVED, 2: BROKEN}) == {1}
    with_claim, other = ({"volumes": [volume(name)]} for name in ("orders-0-1", "orders-0-2"))
    live = applied(wanted() | {"spec": {"replicas": 1, "template": {"spec": with_claim}}})
    new = wanted() | {"spec": {"replicas": 1, "template": {"spec": other}}}
    assert state_of(live, pod(ready=False), new).changes_at_once
    assert not state_of(live, pod(), new).changes_at_once


def volume(claim: str) -> Object:
    return {"name": "state", "persistentVolumeClaim": {"claimName": claim}}


def test_a_stream_without_workers_gets_all_of_them_at_once() -> None:
    missing = state_of(None, None, wanted())
    assert may_change(dict.fromkeys(range(3), missing)) == {0, 1, 2}


def test_suspend_and_resume_are_at_once() -> None:
    running = applied(wanted(1))
    suspending = state_of(running, pod(), wanted(0))
    resuming = state_of(applied(wanted(0)), None, wanted(1))
    for state in (suspending, resuming):
        assert state.idle
        assert may_change({0: state, 1: state}) == {0, 1}


def test_a_missing_worker_does_not_let_a_ready_one_be_changed_beside_it() -> None:
    missing = state_of(None, None, wanted())
    assert may_change({0: OUTDATED, 1: missing}) == {1}


@given(st.dictionaries(st.integers(0, 9), states))
def test_at_most_one_ready_worker_is_changed_and_only_while_all_others_are_settled(
    workers: dict[int, WorkerState],
) -> None:
    changing = may_change(workers)
    interrupted = [p for p in changing if workers[p].rolled_out and not workers[p].idle]
    assert len(interrupted) <= 1
    starting = any(worker.current and not worker.rolled_out for worker in workers.values())
    if starting:
        assert all(workers[p].changes_at_once for p in changing)
    if interrupted:
        assert all(worker.rolled_out for worker in workers.values())
    assert not any(workers[p].current for p in changing)


@given(st.dictionaries(st.integers(0, 9), states))
def test_a_rollout_comes_to_its_end_when_workers_settle(workers: dict[int, WorkerState]) -> None:
    for _ in range(2 * len(workers)):
        rolled_out = {p: replace(one, rolled_out=True) for p, one in workers.items()}
        changing = may_change(rolled_out)
        workers = {p: RUNNING if p in changing else one for p, one in rolled_out.items()}
    assert all(worker.current for worker in workers.values())


def test_a_worker_of_the_newest_revision_that_is_ready_is_settled() -> None:
    state = state_of(applied(wanted()), pod(), wanted())
    assert state == RUNNING


def test_a_stateful_set_its_controller_has_not_seen_is_not_settled() -> None:
    live = applied(wanted(), generation=2, observed=1)
    assert not state_of(live, pod(), wanted()).rolled_out
    del live["status"]
    assert not state_of(live, pod(), wanted()).rolled_out


def test_a_pod_of_an_older_revision_is_not_settled() -> None:
    assert not state_of(applied(wanted()), pod(revision="old"), wanted()).rolled_out


def test_a_missing_or_unready_pod_is_not_settled() -> None:
    assert not state_of(applied(wanted()), None, wanted()).rolled_out
    assert not state_of(applied(wanted()), pod(ready=False), wanted()).rolled_out


def test_a_stopped_worker_is_settled_once_its_pod_is_gone() -> None:
    stopped = applied(wanted(0))
    assert state_of(stopped, None, wanted(0)) == WorkerState(
        current=True, rolled_out=True, idle=True
    )
    assert not state_of(stopped, pod(dying=True), wanted(0)).rolled_out


def test_another_image_is_not_current() -> None:
    assert not state_of(applied(wanted(image="a")), pod(), wanted(image="b")).current


def test_a_stuck_pod_is_unready_and_of_an_older_revision() -> None:
    live = stateful_set()
    assert is_stuck(live, pod(ready=False, revision="old"))
    assert not is_stuck(live, pod(ready=True, revision="old"))
    assert not is_stuck(live, pod(ready=False, revision="new"))
    assert not is_stuck(live, pod(ready=False, revision="old", dying=True))
    assert not is_stuck(live, None)


def test_a_pod_is_not_called_stuck_before_the_controller_has_seen_the_change() -> None:
    live = stateful_set(generation=2, observed=1)
    assert not is_stuck(live, pod(ready=False, revision="old"))


def test_a_pod_on_its_way_out_is_not_ready() -> None:
    assert is_ready(pod())
    assert not is_ready(pod(ready=False))
    assert not is_ready(pod(dying=True))
    assert not is_ready({"metadata": {}})
    assert not is_ready(None)
