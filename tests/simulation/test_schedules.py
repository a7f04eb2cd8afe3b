"""Schedules that found something, written out: they stay when the generator changes."""

from pathlib import Path

import pytest

from tests.simulation.kafka.calls import Moment
from tests.simulation.outcome import run
from tests.simulation.schedule.faults import Crash, Freeze, ReplaceVolume, Snapshot, Stop
from tests.simulation.schedule.input import Item, Send
from tests.simulation.schedule.settings import INPUT, OUTPUT, Settings
from tests.simulation.schedule.steps import Action, Schedule, Step, When
from tests.simulation.schedule.topics import (
    ExpireOffsets,
    ForeignWrite,
    Recreate,
    Retain,
    StopFetching,
)
from tests.simulation.world import World
from tests.support.checker.outside import EventKind

pytestmark = pytest.mark.usefixtures("quiet")

SOME = Send(tuple(map(Item, (0, 0, 1, 2, 3, 0, 4, 1, 5, 6, 7, 4, 8, 9, 2, 10))))
FRESH = Send(tuple(map(Item, range(20, 40))))
AGAIN = Send(tuple(map(Item, [*range(11), *range(20, 45)])))


def then(action: Action, seconds: float = 5.0) -> Step:
    return Step(When(0, seconds=seconds), 0, action)


def after(call: str, action: Action, number: int = 1) -> Step:
    return Step(When(number, call, Moment.AFTER), 0, action)


def judge(*steps: Step, settings: Settings | None = None) -> None:
    outcome = run(Schedule(1, settings or Settings(), steps))
    assert not outcome.defects, "\n".join(outcome.defects)
    expected = [step.action.fault for step in steps if step.action.fault]
    assert list(outcome.faults) == expected, "not all of it happened"


def test_a_rebuild_keeps_the_input_offset_after_those_of_the_group_expired(tmp_path: Path) -> None:
    steps = (
        then(SOME),
        then(Stop()),
        then(ExpireOffsets(), 0.0),
        then(Retain(OUTPUT, 1.0)),
    )
    world = World(Schedule(1, Settings(), steps), tmp_path, None)
    world.run()
    offsets = [each.offset for each in world.recorder.progress]
    assert offsets == sorted(offsets)


@pytest.mark.parametrize("calls", range(1, 60, 4))
def test_a_kill_after_the_input_topic_was_created_again_skips_none_of_it(calls: int) -> None:
    judge(
        then(SOME),
        then(Stop()),
        then(Recreate(INPUT), 0.5),
        then(FRESH, 0.0),
        Step(When(calls), 0, Crash(down_seconds=0.0)),
        then(AGAIN),
    )


def test_an_open_transaction_of_others_is_not_the_end_of_the_output() -> None:
    judge(
        then(SOME),
        then(ForeignWrite(3, transactional=True, open_seconds=20.0)),
        then(FRESH, 1.0),
        then(Crash(), 1.0),
        then(AGAIN),
    )


@pytest.mark.parametrize("stop", [Stop(10.0), Crash(down_seconds=10.0)], ids=str)
def test_what_expires_before_the_first_read_of_a_new_input_topic_is_counted(stop: Action) -> None:
    judge(
        then(SOME),
        then(stop),
        then(Recreate(INPUT), 1.0),
        then(FRESH, 0.0),
        then(Retain(INPUT, 0.5), 0.0),
        then(AGAIN),
    )


def test_a_first_commit_that_outlives_the_transaction_is_no_fencing() -> None:
    judge(after("send_offsets_to_transaction", Freeze(400.0)), then(SOME, 0.0))


def test_the_tail_that_retention_deleted_shortens_the_window_by_name() -> None:
    judge(
        then(SOME),
        then(Snapshot()),
        then(FRESH),
        then(Retain(OUTPUT, 1.0)),
        then(ReplaceVolume("snapshot")),
        then(AGAIN),
    )


def test_the_history_says_how_each_worker_ended(tmp_path: Path) -> None:
    """A stop within a request is a stop: the worker names no failure that the stop has caused."""
    steps = (
        then(Send((Item(0),))),
        Step(When(1, "list_offsets", seconds=60.0), 0, Stop()),
        then(Crash(), 20.0),
        Step(When(1, "describe_topics", seconds=60.0), 0, Stop()),
    )
    world = World(Schedule(1, Settings(), steps), tmp_path, None)
    world.run()
    recorder = world.recorder
    ended = [each for each in recorder.events if each.kind is EventKind.WORKER_ENDED]
    assert [each.exit_code for each in ended] == [0, None, 0, 0]
    last = {each.process: each for each in recorder.statuses}
    stopped = [last[each.process] for each in ended if each.exit_code == 0]
    assert [(each.phase, each.reason, each.errors) for each in stopped] == 3 * [
        ("Stopping", None, {})
    ]


@pytest.mark.parametrize("topic", [INPUT, OUTPUT])
def test_a_worker_whose_client_stops_fetching_connects_again(topic: str) -> None:
    judge(
        then(SOME),
        then(StopFetching(topic)),
        then(FRESH, 1.0),
        then(Stop()),
        then(AGAIN),
    )
