"""Make a failing schedule as small as it can be: fewer steps, fewer records, simpler settings."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from tests.simulation.schedule.input import InTransaction, Send
from tests.simulation.schedule.settings import Settings
from tests.simulation.schedule.steps import Schedule, Step, When

Fails = Callable[[Schedule], bool]


def shrink(schedule: Schedule, fails: Fails, *, attempts: int = 300) -> Schedule:
    """Return a smaller schedule that still fails; it runs at most so many.

    Each round tries every simplification, the coarse ones first, and keeps those with which it still fails.
    """
    left = attempts
    while True:
        before = schedule
        for simpler in _passes:
            tried = 0
            while left > 0:
                candidate = next(iter(_skip(simpler(schedule), tried)), None)
                if candidate is None:
                    break
                left -= 1
                if fails(candidate):
                    schedule = candidate
                else:
                    tried += 1
        if schedule == before or left <= 0:
            return schedule


def _skip(candidates: Iterator[Schedule], count: int) -> Iterator[Schedule]:
    for number, candidate in enumerate(candidates):
        if number >= count:
            yield candidate


def _without_halves(schedule: Schedule) -> Iterator[Schedule]:
    size = len(schedule.steps) // 2
    while size > 1:
        for begin in range(0, len(schedule.steps), size):
            steps = schedule.steps[:begin] + schedule.steps[begin + size :]
            if steps and len(steps) < len(schedule.steps):
                yield replace(schedule, steps=steps)
        size //= 2


def _without_steps(schedule: Schedule) -> Iterator[Schedule]:
    for place in range(len(schedule.steps)):
        steps = schedule.steps[:place] + schedule.steps[place + 1 :]
        if steps:
            yield replace(schedule, steps=steps)


def _with_defaults(schedule: Schedule) -> Iterator[Schedule]:
    default = Settings()
    for each in fields(Settings):
        simple = getattr(default, each.name)
        if getattr(schedule.settings, each.name) == simple:
            continue
        settings = replace(schedule.settings, **{each.name: simple})
        if settings.transaction_records < settings.batch_records:
            continue
        steps = tuple(s for s in schedule.steps if s.partition < settings.partitions)
        steps = steps or tuple(replace(s, partition=0) for s in schedule.steps)
        yield replace(schedule, settings=settings, steps=steps)


def _with_fewer_records(schedule: Schedule) -> Iterator[Schedule]:
    for place, step in enumerate(schedule.steps):
        if not isinstance(step.action, Send):
            continue
        items = step.action.items
        size = len(items) // 2
        while size:
            for begin in range(0, len(items), size):
                fewer = items[:begin] + items[begin + size :]
                if fewer:
                    smaller = replace(step, action=Send(fewer))
                    yield _with_step(schedule, place, smaller)
            size //= 2


def _without_transactions(schedule: Schedule) -> Iterator[Schedule]:
    for place, step in enumerate(schedule.steps):
        if isinstance(step.action, InTransaction):
            yield _with_step(schedule, place, replace(step, action=step.action.send))


def _with_simpler_moments(schedule: Schedule) -> Iterator[Schedule]:
    for place, step in enumerate(schedule.steps):
        for when in (When(0, seconds=0.0), When(0, seconds=5.0), replace(step.when, number=1)):
            if when != step.when and (step.when.number or when.number):
                yield _with_step(schedule, place, replace(step, when=when))


def _with_step(schedule: Schedule, place: int, step: Step) -> Schedule:
    steps = (*schedule.steps[:place], step, *schedule.steps[place + 1 :])
    return replace(schedule, steps=steps)


_passes = (
    _without_halves,
    _without_steps,
    _with_defaults,
    _without_transactions,
    _with_simpler_moments,
    _with_fewer_records,
)
