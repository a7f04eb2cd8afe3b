"""Schedules in which an input of routers loses its tail, written out: they stay when the generator changes."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.outcome import run
from tests.simulation.routed_world import RoutedWorld
from tests.simulation.schedule.input import Item
from tests.simulation.schedule.routers import FreezeAt, Grow, KillAt, LoseTail, SendTo
from tests.simulation.schedule.settings import OUTPUT, Settings
from tests.simulation.schedule.steps import Action, Schedule, Step, When
from tests.support.layers import spread

pytestmark = pytest.mark.usefixtures("quiet")

SETTINGS = Settings(partitions=2, inputs=(2,), routers=2)
READ, KEPT, NEW = 100, 60, 170


def at(seconds: float, action: Action, number: int = 0) -> Step:
    return Step(When(0, seconds=seconds), number, action)


def send(first: int, end: int, partition: int = 0) -> SendTo:
    return SendTo(0, partition, tuple(map(Item, range(first, end))))


LOSS = (
    at(3.0, send(0, READ)),
    at(5.0, LoseTail(0, 0, 0.4)),
    at(0.0, send(READ, NEW)),
    at(0.1, send(500, 550, partition=1)),
)
END = (at(15.0, send(0, NEW, partition=1)),)
"""All copies of what was read are dropped, also of what was lost."""


def judge(*steps: Step, settings: Settings = SETTINGS) -> None:
    outcome = run(Schedule(1, settings, (*steps, *END)))
    assert not outcome.defects, "\n".join(outcome.defects)


def passed(directory: Path, *steps: Step, settings: Settings = SETTINGS) -> tuple[int, set[int]]:
    """Return how many records passed, and how often one of them did."""
    world = RoutedWorld(Schedule(1, settings, steps), directory)
    world.run()
    found = Counter(each.key for each in world.recorder.records(OUTPUT))
    return found.total(), set(found.values())


def test_other_records_at_the_same_offsets_pass(tmp_path: Path) -> None:
    assert passed(tmp_path, *LOSS) == (NEW + 50, {1})


def test_what_was_lost_and_is_sent_again_to_its_old_offsets_passes_once(tmp_path: Path) -> None:
    """The owner of such an id is the very place of the copy, as if that were read again."""
    again = (*LOSS[:2], at(0.0, send(KEPT, NEW)))
    assert passed(tmp_path, *again) == (NEW, {1})


def test_without_transactions_it_passes_again(tmp_path: Path) -> None:
    again = (*LOSS[:2], at(0.0, send(KEPT, NEW)))
    settings = replace(SETTINGS, exactly_once=False)
    assert passed(tmp_path, *again, settings=settings) == (NEW + READ - KEPT, {1, 2})


@pytest.mark.parametrize("calls", spread(range(1, 140, 9)))
def test_a_router_that_is_killed_on_the_way_skips_nothing(calls: int) -> None:
    judge(*LOSS, Step(When(calls, seconds=20.0), 0, KillAt("r", 0.0)))


@pytest.mark.parametrize("seconds", [0.5, 3.5, 4.5, 6.0])
def test_a_router_of_which_others_take_the_partitions_skips_nothing(seconds: float) -> None:
    for router in (0, 1):
        judge(*LOSS, at(seconds, FreezeAt("r", 12.0), router))


@pytest.mark.parametrize("down", [0.0, 12.0])
def test_a_loss_while_no_router_runs_is_noticed(down: float) -> None:
    kills = [at(0.0, KillAt("r", down + 1.0), router) for router in (0, 1)]
    judge(LOSS[0], at(5.0, kills[0].action), kills[1], at(0.5, LOSS[1].action), *LOSS[2:])


def test_a_second_loss_at_the_same_offset_waits_again() -> None:
    judge(*LOSS, at(20.0, LoseTail(0, 0, 70 / 130)), at(0.0, send(200, 300)))


@pytest.mark.parametrize("seconds", [0.0, 1.0, 5.0])
def test_a_growth_waits_for_a_partition_that_is_held(seconds: float) -> None:
    settings = replace(SETTINGS, grows_to=4)
    judge(*LOSS, at(seconds, Grow(4), 0), settings=settings)
    judge(LOSS[0], at(5.0, Grow(4), 0), at(seconds, LOSS[1].action), *LOSS[2:], settings=settings)
