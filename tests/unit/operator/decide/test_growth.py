"""The condition and the events of a growth, and which partitions count."""

from dataclasses import replace

import pytest

from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_crds.status.worker import Phase, ReconcileStatus, WorkerStatus
from dedupe_growth.entries import (
    Cuts,
    Direct,
    Done,
    Entry,
    HandedOver,
    Prepare,
    RouterStart,
    Switch,
)
from dedupe_growth.epochs import epochs_of
from dedupe_growth.unlearnt import LEARNING
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.growth import (
    GrowthView,
    growth_events,
    joining_clause,
    judge,
    step_number,
)
from tests.unit.operator.objects import worker_status

FIRST: list[Entry] = [Switch(epoch=0, partitions=2, inputs={"a": 1}), Done(epoch=0)]
PREPARED = [*FIRST, Prepare(epoch=1, partitions=4)]
SWITCHED = [*PREPARED, Switch(epoch=1, partitions=4, inputs={"a": 1})]
GROWN = [*SWITCHED, Cuts(epoch=1, cuts={0: 1, 1: 1}), Done(epoch=1)]
PROBLEM = Problem(reason="NotAuthorized", message="an ACL is missing")


def status(step: GrowthStep = GrowthStep.LEARNING, epoch: int = 1) -> GrowthStatus:
    return GrowthStatus(epoch=epoch, before=2, partitions=4, step=step, done=0, total=2)


def view(
    entries: list[Entry],
    *,
    step: GrowthStep | None = None,
    problem: Problem | None = None,
    wanted: int = 4,
) -> GrowthView:
    return GrowthView(
        epochs=epochs_of(entries),
        status=status(step) if step else None,
        problem=problem,
        wanted=wanted,
    )


def learner(partition: int) -> WorkerStatus:
    reading = ReconcileStatus(reason=LEARNING, records=0, remaining=9, seconds=0.0)
    status = worker_status(partition, phase=Phase.RECONCILING)
    return status.model_copy(update={"reconcile": reading})


@pytest.mark.parametrize(
    ("given", "holds", "reason", "part"),
    [
        (view([]), None, "NotStarted", "was not read yet."),
        (view([], problem=PROBLEM), None, "NotAuthorized", "It waits: an ACL is missing"),
        (view(FIRST, wanted=2), False, "NotGrowing", "The stream has 2 partitions."),
        (view(FIRST), True, "WaitingForTopics", "The growth from 2 to 4 partitions begins once"),
        (view(PREPARED, step=GrowthStep.LEARNING), True, "Learning", "from 2 to 4 partitions"),
        (view(PREPARED, step=GrowthStep.LEARNING, wanted=6), True, "Learning", "it grows to 6."),
        (
            view(SWITCHED, step=GrowthStep.WAITING_FOR_ROUTERS, problem=PROBLEM),
            True,
            "NotAuthorized",
            "WaitingForRouters, 0 of 2. It waits: an ACL is missing",
        ),
        (view(GROWN, step=GrowthStep.DONE), False, "NotGrowing", "has 4 partitions."),
        (view(GROWN, problem=PROBLEM), False, "NotGrowing", "has 4 partitions."),
    ],
)
def test_the_condition_says_what_is_done_and_what_is_waited_for(
    given: GrowthView, holds: bool | None, reason: str, part: str
) -> None:
    verdict = judge(given)
    assert (verdict.holds, verdict.reason) == (holds, reason)
    assert part in verdict.message


def test_before_the_switch_no_added_partition_counts() -> None:
    prepared = view(PREPARED)
    assert prepared.joining({}) == {2, 3}
    assert prepared.joining({2: worker_status(2), 3: learner(3)}) == {2, 3}
    assert prepared.learning({2: worker_status(2), 3: learner(3), 0: learner(0)}) == {3}


def test_after_the_switch_those_that_learn_do_not_count() -> None:
    switched = view(SWITCHED)
    assert switched.joining({2: worker_status(2), 3: learner(3)}) == {3}
    assert switched.joining({}) == set()
    failed = learner(3).model_copy(update={"phase": Phase.FAILED})
    assert switched.joining({3: failed}) == set()


@pytest.mark.parametrize("entries", [[], FIRST, GROWN])
def test_at_rest_all_partitions_count(entries: list[Entry]) -> None:
    assert view(entries).added == range(0)
    assert view(entries).joining({0: learner(0), 3: learner(3)}) == set()
    assert step_number(view(entries, step=GrowthStep.DONE)) == 0


def test_the_steps_are_numbered() -> None:
    steps = [step for step in GrowthStep if step is not GrowthStep.DONE]
    assert [step_number(view(SWITCHED, step=step)) for step in steps] == [1, 2, 3, 4, 5]


def test_a_clause_names_what_joins() -> None:
    assert joining_clause(frozenset()) == ""
    assert joining_clause(frozenset({4})) == ", and partition 4 is being added"


LEARNS, READS, DONE = status(), status(GrowthStep.READING_REST), status(GrowthStep.DONE)
NEXT = status(epoch=2)


@pytest.mark.parametrize(
    ("before", "now", "reasons"),
    [
        (None, None, []),
        (None, LEARNS, ["GrowthStarted"]),
        (LEARNS, LEARNS, []),
        (LEARNS, READS, []),
        (READS, DONE, ["GrowthFinished"]),
        (DONE, DONE, []),
        (DONE, NEXT, ["GrowthStarted"]),
        (READS, NEXT, ["GrowthFinished", "GrowthStarted"]),
        (None, DONE, []),
        (READS, None, []),
    ],
)
def test_a_growth_begins_and_ends_once(
    before: GrowthStatus | None, now: GrowthStatus | None, reasons: list[str]
) -> None:
    assert [event.reason for event in growth_events(before, now)] == reasons


BEFORE: list[Entry] = [Direct(epoch=0, partitions=2, topic="a", topic_id="T")]
HANDING_OVER = [*BEFORE, Prepare(epoch=1, partitions=4)]
STARTS = {each: RouterStart(offset=9, topic_id="T") for each in range(2)}
HANDED_OVER = [*HANDING_OVER, HandedOver(epoch=1, cuts={0: 1, 1: 1}, starts=STARTS)]
ROUTED = [*HANDED_OVER, Switch(epoch=1, partitions=4, inputs={"a": 2})]
CHANGED = [*ROUTED, Done(epoch=1)]


@pytest.mark.parametrize(
    ("entries", "has_begun", "adds_routers", "hands_over", "unwritten"),
    [
        ([], False, False, False, []),
        (BEFORE, False, True, False, []),
        (HANDING_OVER, True, True, True, [2, 3]),
        (HANDED_OVER, True, True, False, [2, 3]),
        (ROUTED, True, True, False, []),
        (CHANGED, True, False, False, []),
        (PREPARED, True, False, False, [2, 3]),
    ],
)
def test_of_a_stream_that_gets_routers_old_workers_hand_over_first(
    entries: list[Entry],
    *,
    has_begun: bool,
    adds_routers: bool,
    hands_over: bool,
    unwritten: list[int],
) -> None:
    seen = view(entries)
    assert (seen.has_begun, seen.adds_routers, seen.hands_over) == (
        has_begun,
        adds_routers,
        hands_over,
    )
    assert [each for each in range(5) if seen.is_unwritten(each)] == unwritten
    if adds_routers:
        assert seen.joining({0: learner(0), 3: learner(3)}) == set()
    for direct in (True, False):
        assert replace(seen, direct=direct).must_wait is (direct and not has_begun)


def test_events_of_a_change_to_routers_say_so() -> None:
    step = status(GrowthStep.HANDING_OVER).model_copy(update={"adds_routers": True})
    (started,) = growth_events(None, step)
    assert started.message.startswith("The stream with 2 partitions gets routers and 4 partitions,")
    (finished,) = growth_events(step, step.model_copy(update={"step": GrowthStep.DONE}))
    assert finished.message == "The stream has grown from 2 to 4 partitions and got routers."
