"""Schedules that found something, written out: they stay when the generator changes."""

from pathlib import Path

from tests.simulation.outcome import silence_logs
from tests.simulation.schedule.faults import Crash, Stop
from tests.simulation.schedule.input import Item, Send
from tests.simulation.schedule.settings import OUTPUT, Settings
from tests.simulation.schedule.steps import Schedule, Step, When
from tests.simulation.schedule.topics import ExpireOffsets, Retain
from tests.simulation.world import World
from tests.support.checker.outside import EventKind


def test_a_rebuild_keeps_the_input_offset_after_those_of_the_group_expired(tmp_path: Path) -> None:
    silence_logs()
    ids = (0, 0, 1, 2, 3, 0, 4, 1, 5, 6, 7, 4, 8, 9, 2, 10)
    sent = Send(tuple(map(Item, ids)))
    steps = (
        Step(When(0, seconds=5.0), 0, sent),
        Step(When(0, seconds=5.0), 0, Stop()),
        Step(When(0, seconds=0.0), 0, ExpireOffsets()),
        Step(When(0, seconds=5.0), 0, Retain(OUTPUT, 1.0)),
    )
    world = World(Schedule(1, Settings(), steps), tmp_path, None)
    world.run()
    offsets = [each.offset for each in world.recorder.progress]
    assert offsets == sorted(offsets)


def test_the_history_says_how_each_worker_ended(tmp_path: Path) -> None:
    """A stop within a request is a stop: the worker names no failure that the stop has caused."""
    silence_logs()
    steps = (
        Step(When(0, seconds=5.0), 0, Send((Item(0),))),
        Step(When(1, "list_offsets", seconds=60.0), 0, Stop()),
        Step(When(0, seconds=20.0), 0, Crash()),
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
