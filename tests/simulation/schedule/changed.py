"""Make a schedule of a seed in which a stream gets routers in place.

As in routed.py, whose faults it uses. First the workers read the input themselves, with few faults; the copies of an id
are in one partition. Then the manifest changes, and most faults meet the change. At the end the copies of all ids come
to any partition. Some streams grow after it.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from tests.simulation.changed_world import End
from tests.simulation.kafka.calls import Moment
from tests.simulation.schedule.faults import (
    Crash,
    DamageStore,
    FailCall,
    Freeze,
    ReplaceVolume,
    SecondWorker,
    Snapshot,
    Stop,
)
from tests.simulation.schedule.input import Item, with_transactions
from tests.simulation.schedule.manifest import AddRouters, OldManifest, RetainRead, SendCopies
from tests.simulation.schedule.routed import (
    CODES,
    DOWN_SECONDS,
    FREEZE_SECONDS,
    Make,
    faults_of,
    moment_of,
    seat_of,
)
from tests.simulation.schedule.routers import AddInputPartition, Grow, SendTo
from tests.simulation.schedule.settings import Settings
from tests.simulation.schedule.steps import Action, Schedule, Step, When
from tests.simulation.schedule.topics import LeaderAway, TerminateTransactions

_PAUSES: Final = (0.0, 0.1, 1.0, 3.0)
_LATER_PAUSES: Final = (0.0, 0.1, 1.0, 3.0, 12.0)

_BEFORE: Final[tuple[tuple[int, Make], ...]] = (
    (6, lambda r, _: Crash(power=r.random() < 0.3, down_seconds=r.choice(DOWN_SECONDS))),
    (2, lambda r, _: Stop(down_seconds=r.choice(DOWN_SECONDS))),
    (2, lambda r, _: Freeze(r.choice(FREEZE_SECONDS))),
    (3, lambda r, _: FailCall(r.choice(CODES), ambiguous=r.random() < 0.5)),
    (2, lambda r, _: SecondWorker(r.choice(["empty", "copy", "snapshot"]))),
    (2, lambda r, _: ReplaceVolume(r.choice(["empty", "snapshot"]), r.choice(DOWN_SECONDS))),
    (1, lambda r, _: DamageStore(r.random())),
    (1, lambda _r, _s: TerminateTransactions()),
    (1, lambda _r, _s: AddInputPartition(0)),
)
"""Faults before the change: what it may find."""

_OWN: Final[tuple[tuple[int, Make], ...]] = (
    (
        16,
        lambda r, _: OldManifest(
            r.choice(["own", "own", "copy", "empty", "snapshot"]), r.choice([1.0, 5.0, 20.0])
        ),
    ),
    (6, lambda r, _: ReplaceVolume("snapshot", r.choice(DOWN_SECONDS))),
    (6, lambda r, _: ReplaceVolume("empty", r.choice(DOWN_SECONDS))),
    (12, lambda r, _: Crash(power=r.random() < 0.3, down_seconds=r.choice(DOWN_SECONDS))),
    (4, lambda _r, _s: RetainRead()),
)
"""Faults that only a change has, or that are more frequent in one."""

_FROZEN_SECONDS: Final = (0.0, 0.0, 0.0, 0.2, 1.0, *FREEZE_SECONDS)
"""For which a zombie stands still: it may meet the hand-over, or what follows it."""

_AT_THE_HAND_OVER: Final = (
    ("commit_transaction", Moment.AFTER),
    ("commit_transaction", Moment.AFTER),
    ("send_offsets_to_transaction", Moment.AFTER),
    ("init_transactions", Moment.BEFORE),
    ("init_transactions", Moment.BEFORE),
)
_MEETS_SHARE: Final = 0.35
_LOSE_VOLUMES: Final = (ReplaceVolume, DamageStore, SecondWorker, OldManifest)
_GROWS_SHARE: Final = 0.35
_EXPIRE_SHARE: Final = 0.08


def changed_schedule_of(seed: int) -> Schedule:
    """Return the schedule of a change of a seed."""
    random = Random(f"{seed} change")
    settings = _settings(random)
    source = _Source(random, settings)
    steps = [source.step() for _ in range(random.randint(2, 4))]
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        steps.append(_fault(random, settings, _BEFORE))
        source.see(steps[-1].action)
        if random.random() < 0.5:
            steps.append(
                Step(
                    When(random.randint(0, 30), seconds=1.0),
                    random.randrange(settings.direct),
                    Snapshot(),
                )
            )
        steps.append(source.step())
    # Of several inputs the controller could not know which one was read.
    lasting = random.random() < _EXPIRE_SHARE and len(settings.inputs) == 1
    lasting = lasting and not any(isinstance(each.action, _LOSE_VOLUMES) for each in steps)
    steps += [source.step() for _ in range(random.choice([0, 1, 1, 2]))]
    change = _change(random, settings, offsets_expire=lasting)
    meets = settings.exactly_once and not lasting and random.random() < _MEETS_SHARE
    steps += _meeting(random, source, change) if meets else [change]
    source.anywhere = True
    known = (*faults_of(settings), *_OWN)
    for _ in range(random.choice([0, 1, 2, 3, 3, 4, 6])):
        steps += [source.step() for _ in range(random.choice([0, 1, 1, 2]))]
        if random.random() < 0.2:
            steps.append(Step(When(0, seconds=0.5), random.randrange(settings.seats), Snapshot()))
        steps.append(_fault(random, settings, known, keeps_volumes=lasting))
        source.see(steps[-1].action)
    steps += [source.step() for _ in range(random.randint(1, 2))]
    if settings.grows_to:
        steps.append(
            Step(
                When(random.randint(1, 40), seconds=random.choice([0.5, 20.0])),
                0,
                Grow(settings.grows_to),
            )
        )
        steps.append(source.step())
        steps.append(_fault(random, settings, faults_of(settings)))
        steps.append(source.step())
    steps += [source.repeats(seconds) for seconds in (random.choice([0.5, 5.0]), 30.0)]
    return Schedule(seed, settings, with_transactions(seed, steps))


def _settings(random: Random) -> Settings:
    direct = random.choice([1, 2, 2, 3])
    partitions = direct + random.choice([0, 0, 1, 2])
    others = [random.choice([1, 2]) for _ in range(random.choice([0, 0, 0, 1]))]
    batch = random.choice([5, 20, 10_000])
    return Settings(
        direct=direct,
        partitions=partitions,
        inputs=(direct, *others),
        routers=random.choice([1, 2, 2, 3]),
        grows_to=partitions + random.choice([1, 2]) if random.random() < _GROWS_SHARE else 0,
        id_from=random.choice(["Key", "Header"]),
        by_key=random.random() < 0.3,
        duplicates=random.random() < 0.25,
        conflicts=random.random() < 0.1,
        exactly_once=random.random() < 0.85,
        table_slots=4096 if random.random() < 0.1 else None,
        batch_records=batch,
        transaction_records=max(batch, random.choice([20, 100_000])),
    )


def _change(random: Random, settings: Settings, *, offsets_expire: bool) -> Step:
    """Return the step that adds the routers: mostly within a transaction of a worker."""
    slow = random.choice([0.3, 2.0, 10.0, 30.0])
    kinds = ["kill", "kill", "power", "stop", *(["zombie"] * 3 if settings.exactly_once else [])]
    ends = tuple(
        End(
            how=random.choice(kinds),
            seconds=random.uniform(0.0, slow),
            frozen=random.choice(_FROZEN_SECONDS),
            again=random.choice([0.0, 0.0, 0.0, 0.5, 3.0, 12.0]),
        )
        for _ in range(settings.direct)
    )
    if offsets_expire:
        ends = (End("stop"),) * settings.direct
    starts = tuple(
        random.uniform(0.0, random.choice([0.3, 2.0, 10.0])) for _ in range(settings.routers + 1)
    )
    action = AddRouters(ends, starts, offsets_expire)
    return Step(moment_of(random, Crash()), random.randrange(settings.direct), action)


def _meeting(random: Random, source: "_Source", change: Step) -> list[Step]:
    """Let a worker stand still about its hand-over, while the one before it runs and has input."""
    assert isinstance(change.action, AddRouters)
    ends = list(change.action.ends)
    partition = random.randrange(len(ends))
    ends[partition] = End("zombie", seconds=random.uniform(0.0, 8.0))
    action = replace(change.action, ends=tuple(ends))
    name, moment = random.choice(_AT_THE_HAND_OVER)
    when = When(random.randint(1, 4), name, moment, 12.0)
    sends = [source.step(partition) for _ in range(random.randint(2, 4))]
    return [
        replace(change, action=action),
        *sends[:1],
        Step(when, partition, Freeze(random.choice(FREEZE_SECONDS))),
        *sends[1:],
    ]


def _fault(
    random: Random,
    settings: Settings,
    known: Sequence[tuple[int, Make]],
    *,
    keeps_volumes: bool = False,
) -> Step:
    while True:
        [(_, make)] = random.choices(known, [weight for weight, _ in known])
        action = make(random, settings)
        second = isinstance(action, SecondWorker) or (
            isinstance(action, OldManifest) and action.volume != "own"
        )
        if second and not settings.exactly_once:
            continue  # nothing fences the first one without transactions; the documentation says so
        if keeps_volumes and isinstance(action, _LOSE_VOLUMES):
            continue  # with offsets and store both lost the input is read from its beginning, as documented
        return Step(moment_of(random, action), _number(random, settings, action), action)


def _number(random: Random, settings: Settings, action: Action) -> int:
    seat = seat_of(action)
    if isinstance(action, LeaderAway) or seat == "g":
        return 0
    if seat == "r":
        return random.randrange(settings.routers)
    of_old = isinstance(action, OldManifest) or random.random() < 0.7
    return random.randrange(settings.direct if of_old else settings.seats)


class _Source:
    """Makes the records. Until the change each id goes to its partition of the first input, then to any."""

    def __init__(self, random: Random, settings: Settings) -> None:
        self.anywhere = False
        self._random = random
        self._settings = settings
        self._partitions = list(settings.inputs)
        self._next = 0
        self._sent = 0

    def see(self, action: Action) -> None:
        """Send to added partitions, too."""
        if isinstance(action, AddInputPartition):
            self._partitions[action.topic] += 1

    def step(self, number: int | None = None) -> Step:
        """Return a step that sends some records, before the change to a partition, by default to any."""
        when = When(self._random.randint(0, 20), seconds=self._random.choice(_PAUSES))
        count = self._random.choice([5, 10, 30, 60])
        router = self._random.randrange(self._settings.routers)
        if self.anywhere:
            return Step(when, router, self._copies(tuple(self._item() for _ in range(count))))
        direct = self._settings.direct
        partition = self._random.randrange(direct) if number is None else number
        items = tuple(self._item(partition) for _ in range(count))
        return Step(when, partition, SendTo(0, partition, items))

    def repeats(self, seconds: float) -> Step:
        """Return a step that sends every id again: nothing of it may pass."""
        items = tuple(map(Item, range(self._next)))
        return Step(When(0, seconds=seconds), 0, self._copies(items))

    def _copies(self, items: tuple[Item, ...]) -> SendCopies:
        topic = self._random.randrange(len(self._partitions))
        return SendCopies(topic, self._random.randrange(self._partitions[topic]), items)

    def _item(self, partition: int | None = None) -> Item:
        """Return a fresh id or a repeat, of a partition's ids or of all."""
        self._sent += 1
        kind = self._random.random()
        if kind < 0.02:
            return Item(None, self._sent)
        direct = self._settings.direct
        if kind < 0.6 or self._next < direct:
            number = (
                self._next if partition is None else self._next + (partition - self._next) % direct
            )
            self._next = max(self._next, number + 1)
            return Item(number)
        repeated = self._random.randrange(max(0, self._next - 100), self._next)
        if partition is not None:
            repeated -= (repeated - partition) % direct
        return Item(max(repeated, partition or 0))
