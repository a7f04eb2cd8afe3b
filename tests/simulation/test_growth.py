"""Schedules of a growth, written out: they stay when the generator changes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.kafka.calls import Moment
from tests.simulation.kafka.rights import Right
from tests.simulation.outcome import run
from tests.simulation.routed_world import RoutedWorld
from tests.simulation.schedule.faults import Crash, ReplaceVolume, Snapshot
from tests.simulation.schedule.input import Item
from tests.simulation.schedule.routers import (
    ChangeInputs,
    FreezeAt,
    Grow,
    KillAt,
    SecondAt,
    SendTo,
)
from tests.simulation.schedule.settings import (
    EPOCHS,
    REPARTITION,
    ROUTER_GROUP,
    Settings,
    input_topic,
)
from tests.simulation.schedule.steps import Action, Schedule, Step, When
from tests.simulation.schedule.topics import LeaderAway, Refuse, StopFetching
from tests.support.layers import later, spread

pytestmark = pytest.mark.usefixtures("quiet")

SETTINGS = Settings(partitions=2, inputs=(2, 1), routers=2, grows_to=4)
NEW = 3
"""A partition that the growth adds."""


def at(seconds: float, action: Action, number: int = 0) -> Step:
    return Step(When(0, seconds=seconds), number, action)


def send(topic: int, first: int, end: int) -> SendTo:
    return SendTo(topic, 0, tuple(map(Item, range(first, end))))


BEGIN = (
    at(3.0, send(0, 0, 50)),
    at(0.2, send(1, 25, 75)),
    at(0.1, Snapshot(), NEW),
    at(0.0, Grow(4)),
    at(0.1, send(0, 50, 100)),
)
END = (at(0.1, send(1, 0, 120)), at(15.0, send(0, 0, 120)))


def judge(*steps: Step, settings: Settings = SETTINGS) -> None:
    outcome = run(Schedule(1, settings, (*BEGIN, *steps, *END)))
    assert not outcome.defects, "\n".join(outcome.defects)


def test_a_stream_grows_under_traffic(tmp_path: Path) -> None:
    world = RoutedWorld(Schedule(1, SETTINGS, (*BEGIN, *END)), tmp_path)
    world.run()
    written = world.recorder.records(REPARTITION)
    assert {each.partition for each in written} == {0, 1, 2, 3}
    marks = [each.partition for each in written if dict(each.headers).get("dedupe-epoch")]
    assert set(marks) == {0, 1}, "of the old partitions"


@pytest.mark.parametrize("calls", spread(range(1, 120, 13)))
def test_a_controller_that_is_killed_at_any_call_is_continued(calls: int) -> None:
    judge(Step(When(calls), 0, KillAt("g", 0.0)))


@pytest.mark.parametrize("down", [0.0, later(5.0)])
@pytest.mark.parametrize("name", ["init_transactions", "send", "commit_transaction"])
def test_an_entry_of_a_controller_that_is_killed_counts_or_not(name: str, down: float) -> None:
    for moment in Moment:
        judge(Step(When(1, name, moment), 0, KillAt("g", down)))


@pytest.mark.parametrize("calls", range(1, 60, 15))
def test_two_controllers_do_no_harm(calls: int) -> None:
    judge(Step(When(calls), 0, SecondAt("g", 20.0)))


@pytest.mark.parametrize(
    "fault", [Crash, lambda: Crash(power=True), lambda: ReplaceVolume("empty")]
)
@pytest.mark.parametrize("calls", spread(range(1, 80, 20)))
def test_a_new_worker_learns_again_what_it_has_lost(
    fault: Callable[[], Action], calls: int
) -> None:
    judge(Step(When(calls, seconds=20.0), NEW, fault()))


@pytest.mark.parametrize("calls", spread(range(1, 80, 20)))
def test_a_router_that_stood_still_does_not_route_by_an_old_epoch(calls: int) -> None:
    judge(Step(When(calls), 0, FreezeAt("r", 30.0)))


def test_a_second_growth_follows_the_first_one() -> None:
    judge(at(0.5, Grow(5)), settings=Settings(partitions=2, inputs=(2, 1), routers=2, grows_to=5))


@pytest.mark.parametrize("topic", [input_topic(0), EPOCHS])
def test_a_router_whose_client_stops_fetching_connects_again(topic: str) -> None:
    """Else the partition is not routed, or the growth waits for a router that never sees it."""
    judge(at(0.0, StopFetching(topic, process="r")), settings=replace(SETTINGS, routers=1))


HELD, OTHER = input_topic(0), input_topic(1)


@pytest.mark.parametrize("routers", [1, 2])
@pytest.mark.parametrize(
    "refusal",
    [LeaderAway(HELD, 90.0), Refuse(Right.READ, HELD, 90.0)],
    ids=["leaderless", "unauthorised"],
)
@pytest.mark.parametrize("begins", [0.0, 6.0], ids=["at the start", "while it is read"])
def test_an_input_that_cannot_be_read_keeps_no_other_one_back(
    tmp_path: Path, refusal: Action, begins: float, routers: int
) -> None:
    settings = replace(SETTINGS, routers=routers, grows_to=0)
    steps = (
        at(begins, refusal),
        at(0.2, send(0, 0, 50)),
        at(45.0, send(1, 50, 100)),
        at(40.0, send(0, 0, 100)),
    )
    world = RoutedWorld(Schedule(1, settings, steps), tmp_path)
    routed: dict[str, int] = {}
    reasons: set[str] = set()

    def look() -> None:
        for name in (HELD, OTHER):
            committed = world.kafka.groups.committed(ROUTER_GROUP, name, 0)
            routed[name] = committed.offset if committed else 0
        problems = [each.state.problem for each in world.routers]
        reasons.update(each.reason for each in problems if each)

    world.clock.after(begins + 80.0, look)
    world.run()
    reason = "NoLeader" if isinstance(refusal, LeaderAway) else "NotAuthorized"
    assert reasons == {reason}
    assert routed == {HELD: 0, OTHER: 50}, "one is routed meanwhile"


LOSE, REGAIN = ChangeInputs((0,)), ChangeInputs((0, 1))


@pytest.mark.parametrize("steps", [(LOSE,), (LOSE, REGAIN)])
@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_growth_ends_without_an_input_that_was_taken_out_of_the_manifest(
    steps: tuple[ChangeInputs, ...], *, exactly_once: bool
) -> None:
    """Route by the new epoch what came while it was out, once it is back, and nothing of it twice."""
    between = (at(5.0, Grow(4)), at(0.1, send(0, 50, 100)), at(0.1, send(1, 60, 110)))
    first, *others = steps
    outcome = run(
        Schedule(
            1,
            replace(SETTINGS, exactly_once=exactly_once),
            (
                at(3.0, send(0, 0, 50)),
                at(0.2, send(1, 25, 75)),
                at(5.0, first),
                *between,
                *[at(40.0, each) for each in others],
                *END,
            ),
        )
    )
    assert not outcome.defects, "\n".join(outcome.defects)
