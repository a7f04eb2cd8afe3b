"""Schedules of seeds, and their shrinking."""

from statistics import median

from tests.simulation.schedule.generate import schedule_of
from tests.simulation.schedule.input import InTransaction, Send
from tests.simulation.schedule.shrink import shrink
from tests.simulation.schedule.steps import Schedule


def records(schedule: Schedule) -> int:
    actions = [each.action for each in schedule.steps]
    sent = [each.send if isinstance(each, InTransaction) else each for each in actions]
    return sum(len(each.items) for each in sent if isinstance(each, Send))


def test_a_seed_has_one_schedule() -> None:
    assert [schedule_of(seed) for seed in range(50)] == [schedule_of(seed) for seed in range(50)]
    assert schedule_of(1) != schedule_of(2)


def test_schedules_are_large_enough() -> None:
    schedules = [schedule_of(seed) for seed in range(200)]
    assert median(map(records, schedules)) >= 200
    assert median(len(each.faults) for each in schedules) >= 2


def test_every_fault_meets_every_other_one() -> None:
    seeds = [schedule_of(seed) for seed in range(2000)]
    names = {name for each in seeds for name in each.faults}
    pairs = {(a, b) for each in seeds for a in each.faults for b in each.faults if a < b}
    missing = {(a, b) for a in names for b in names if a < b} - pairs
    # Without transactions, or with one partition, some faults are not possible.
    assert len(missing) <= len(names), sorted(missing)


def test_shrinking_keeps_what_fails_and_no_more() -> None:
    schedule = next(s for s in map(schedule_of, range(100)) if s.faults.count("kill") == 1)
    smaller = shrink(schedule, lambda each: "kill" in each.faults)
    assert [str(step.action) for step in smaller.steps if step.action.fault] == [
        str(step.action) for step in smaller.steps
    ]
    assert len(smaller.steps) == 1
    assert str(smaller.settings) == "defaults"
