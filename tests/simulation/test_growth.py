"""Schedules of a growth, written out: they stay when the generator changes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.kafka.calls import Moment
from tests.simulation.outcome import run
from tests.simulation.routed_world import RoutedWorld
from tests.simulation.schedule.faults import Crash, ReplaceVolume, Snapshot
from tests.simulation.schedule.input import Item
from tests.simulation.schedule.routers import ChangeInputs, FreezeAt, Grow, KillAt, SecondAt, SendTo
from tests.simulation.schedule.settings import REPARTITION, Settings
from tests.simulation.schedule.steps import Action, Schedule, Step, When
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


LOSE, REGAIN = ChangeInputs((0,)), ChangeInputs((0, 1))


@pytest.mark.parametrize("steps", [(LOSE,), (LOSE, REGAIN)])
@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_growth_ends_without_an_input_that_was_taken_out_of_the_manifest(
    steps: tuple[ChangeInputs, ...], *, exactly_once: bool
) -> None:
    """What came while it was out is routed by the new epoch once it is back, and nothing of it twice."""
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
                *(at(40.0, each) for each in others),
                *END,
            ),
        )
    )
    assert not outcome.defects, "\n".join(outcome.defects)
