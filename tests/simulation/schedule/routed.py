"""Make a schedule with routers of a seed.

As in generate.py, from which nothing of the order of random numbers is shared: faults come in clusters, and those of
routers are more frequent than those of workers, which have schedules of their own. Most streams grow on the way.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from confluent_kafka import KafkaError

from tests.simulation.kafka.calls import Moment
from tests.simulation.kafka.rights import Right
from tests.simulation.schedule.faults import (
    Checkpoint,
    Crash,
    DamageStore,
    FailCall,
    Freeze,
    Reconcile,
    ReplaceVolume,
    SecondWorker,
    Snapshot,
    StepClock,
    Stop,
)
from tests.simulation.schedule.input import Item, with_transactions
from tests.simulation.schedule.routers import (
    AddInputPartition,
    ChangeInputs,
    FailCallAt,
    FreezeAt,
    Grow,
    KillAt,
    LoseTail,
    SecondAt,
    SendTo,
    StopAt,
)
from tests.simulation.schedule.settings import EPOCHS, OUTPUT, REPARTITION, Settings, input_topic
from tests.simulation.schedule.steps import Action, Schedule, Step, When
from tests.simulation.schedule.topics import (
    DAMAGE_SHARE,
    Damage,
    LeaderAway,
    Refuse,
    StopFetching,
    TerminateTransactions,
)

Make = Callable[[Random, Settings], Action]

CODES: Final = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)  # noqa: SLF001 (public names)
_BETWEEN_READ_AND_COMMIT: Final = (
    "consume",
    "memberid",
    "consumer_group_metadata",
    "begin_transaction",
    "send",
    "send_offsets_to_transaction",
    "commit_transaction",
)
_ROUTER_CALLS: Final = (
    *_BETWEEN_READ_AND_COMMIT,
    *_BETWEEN_READ_AND_COMMIT,
    "init_transactions",
    "abort_transaction",
    "poll",
    "committed",
    "join",
    "leave",
    "incremental_assign",
    "incremental_unassign",
    "list_offsets",
)
_CONTROLLER_CALLS: Final = (
    "send",
    "flush",
    "commit_transaction",
    "begin_transaction",
    "init_transactions",
    "consume",
    "committed",
    "create_partitions",
    "describe_topics",
)
_WORKER_CALLS: Final = (
    "commit_transaction",
    "send_offsets_to_transaction",
    "init_transactions",
    "consume",
    "committed",
    "list_offsets",
    "delete_records",
    "describe_topics",
)
_CALLS: Final = {"r": _ROUTER_CALLS, "g": _CONTROLLER_CALLS, "p": _WORKER_CALLS}
_FAILING: Final = {
    "r": (
        "commit_transaction",
        "send_offsets_to_transaction",
        "init_transactions",
        "committed",
        "join",
        "list_offsets",
    ),
    "g": ("commit_transaction", "init_transactions", "send", "committed", "create_partitions"),
    "p": ("commit_transaction", "send_offsets_to_transaction", "init_transactions", "committed"),
}
DOWN_SECONDS: Final = (0.0, 1.0, 1.0, 5.0, 15.0)
# Below and beyond the session time-out of 10 s; the last ones beyond that of a transaction as well.
FREEZE_SECONDS: Final = (5.0, 9.0, 11.0, 12.0, 20.0, 40.0, 400.0)
_AWAY_SECONDS: Final = (1.0, 8.0, 15.0, 40.0)
_PAUSES: Final = (0.0, 0.1, 1.0, 3.0, 12.0)

_FAULTS: Final[tuple[tuple[int, Make], ...]] = (
    (16, lambda r, _: KillAt("r", r.choice(DOWN_SECONDS))),
    (10, lambda r, _: StopAt("r", r.choice(DOWN_SECONDS))),
    (16, lambda r, _: FreezeAt("r", r.choice(FREEZE_SECONDS))),
    (6, lambda r, _: SecondAt("r", r.choice([1.0, 5.0, 20.0]))),
    (8, lambda r, _: FailCallAt("r", r.choice(CODES), ambiguous=True)),
    (6, lambda r, _: FailCallAt("r", r.choice(CODES), ambiguous=False)),
    (5, lambda r, s: AddInputPartition(r.randrange(len(s.inputs)))),
    (4, lambda r, s: LeaderAway(_topic(r, s), r.choice(_AWAY_SECONDS))),
    (3, lambda r, _: LeaderAway(None, r.choice(_AWAY_SECONDS))),
    (3, lambda _r, _s: TerminateTransactions()),
    (2, lambda r, _: StepClock(r.choice([-3600.0, -60.0, 60.0, 3600.0]))),
    (6, lambda r, _: Crash(power=r.random() < 0.3, down_seconds=r.choice(DOWN_SECONDS))),
    (2, lambda r, _: Stop(down_seconds=r.choice(DOWN_SECONDS))),
    (2, lambda r, _: Freeze(r.choice(FREEZE_SECONDS))),
    (3, lambda r, _: FailCall(r.choice(CODES), ambiguous=r.random() < 0.5)),
    (2, lambda r, _: SecondWorker(r.choice(["empty", "copy", "snapshot"]))),
    (2, lambda r, _: ReplaceVolume("snapshot", r.choice(DOWN_SECONDS))),
    (2, lambda r, _: ReplaceVolume("empty", r.choice(DOWN_SECONDS))),
    (1, lambda r, _: DamageStore(r.random())),
)
_GROWTH_FAULTS: Final[tuple[tuple[int, Make], ...]] = (
    (14, lambda r, _: KillAt("g", r.choice(DOWN_SECONDS))),
    (3, lambda r, _: StopAt("g", r.choice(DOWN_SECONDS))),
    (8, lambda r, _: FreezeAt("g", r.choice(FREEZE_SECONDS))),
    (8, lambda r, _: SecondAt("g", r.choice([1.0, 5.0, 20.0]))),
    (5, lambda r, _: FailCallAt("g", r.choice(CODES), ambiguous=True)),
    (4, lambda r, _: FailCallAt("g", r.choice(CODES), ambiguous=False)),
    (10, lambda r, _: Crash(power=r.random() < 0.3, down_seconds=r.choice(DOWN_SECONDS))),
    (4, lambda r, _: Stop(down_seconds=r.choice(DOWN_SECONDS))),
    (5, lambda r, _: Freeze(r.choice(FREEZE_SECONDS))),
    (4, lambda r, _: FailCall(r.choice(CODES), ambiguous=r.random() < 0.5)),
    (5, lambda r, _: SecondWorker(r.choice(["empty", "copy", "snapshot"]))),
    (5, lambda r, _: ReplaceVolume("snapshot", r.choice(DOWN_SECONDS))),
    (6, lambda r, _: ReplaceVolume("empty", r.choice(DOWN_SECONDS))),
    (2, lambda r, _: DamageStore(r.random())),
    (4, lambda r, _: Reconcile(r.randrange(1000), full=r.random() < 0.7)),
    (2, lambda _r, _s: Checkpoint()),
)
"""Faults that are more frequent where a stream grows: those of the controller and of the workers."""

_FOLLOW_SHARE: Final = 0.4
_FOLLOWS: Final[dict[str, Make]] = {
    "growth": lambda r, _: r.choice((KillAt, StopAt, FreezeAt))("r", r.choice([5.0, 12.0, 20.0])),
    "router freeze": lambda r, _: KillAt("r", r.choice(DOWN_SECONDS)),
    "router kill": lambda r, _: FreezeAt("r", r.choice(FREEZE_SECONDS)),
    "router stop": lambda r, _: FreezeAt("r", r.choice(FREEZE_SECONDS)),
    "router ambiguous call": lambda r, _: KillAt("r", r.choice(DOWN_SECONDS)),
    "input partition added": lambda r, _: StopAt("r", r.choice(DOWN_SECONDS)),
    "controller freeze": lambda r, _: SecondAt("g", r.choice([1.0, 5.0, 20.0])),
    "controller ambiguous call": lambda r, _: KillAt("g", r.choice(DOWN_SECONDS)),
    "volume lost": lambda r, _: Crash(down_seconds=r.choice(DOWN_SECONDS)),
    "snapshot restored": lambda r, _: Crash(down_seconds=r.choice(DOWN_SECONDS)),
}
"""Faults that meet what these have left: a rebalance or a start that is under way."""

_GROWS_SHARE: Final = 0.75
_AGAIN_SHARE: Final = 0.35
_REPEATS_SHARE: Final = 0.6
_SILENCE_SHARE: Final = 0.1
_EARLY_SHARE: Final = 0.25
_LOSES_SHARE: Final = 0.1
_MANIFESTS_SHARE: Final = 0.3
_REGAINS_SHARE: Final = 0.6


def routed_schedule_of(seed: int) -> Schedule:
    """Return the schedule with routers of a seed."""
    random = Random(f"{seed} routed")
    settings = _settings(random)
    growths = _growths(random, settings)
    settings = replace(settings, grows_to=growths[-1] if growths else 0)
    source = _Source(random, settings)
    steps = [source.step()]
    if random.random() < _EARLY_SHARE:
        steps.append(_fault(random, settings))  # in the first transactions of all
        source.see(steps[-1].action)
    steps += [source.step() for _ in range(random.randint(1, 3))]
    faults = random.choice([1, 2, 3, 3, 4, 6])
    at = sorted(random.randint(0, faults) for _ in growths)
    for number in range(faults + 1):
        while at and at[0] == number:
            at.pop(0)
            steps.append(_growth(random, growths.pop(0)))
            steps += [source.step() for _ in range(random.choice([0, 0, 1, 2]))]
        if number < faults:
            steps += _cluster(random, settings, source, steps[-1])
    steps += [source.step() for _ in range(random.randint(1, 3))]
    if random.random() < _REPEATS_SHARE:
        steps += source.repeats()
    _add_silence(Random(f"{seed} silence"), settings, steps)
    steps = _with_manifests(seed, settings, steps)
    random = Random(f"{seed} damage")
    if random.random() < DAMAGE_SHARE:
        damage = Damage.chosen(random, _topic(random, settings))
        step = Step(moment_of(random, damage), random.randrange(settings.partitions), damage)
        steps.insert(random.randint(1, len(steps)), step)
    lossy = _with_losses(seed, settings, steps, source)
    return Schedule(seed, settings, with_transactions(seed, lossy))


def _with_losses(
    seed: int, settings: Settings, steps: Sequence[Step], source: "_Source"
) -> tuple[Step, ...]:
    """Let an input lose its tail in some schedules, and mostly get other records in its place.

    It has random numbers of its own, so all other schedules are as without it. Without transactions it is not judged
    which records pass again; nor, of an input that is taken out, which of those that came in place of others.
    """
    random = Random(f"{seed} losses")
    if random.random() >= _LOSES_SHARE or not settings.exactly_once:
        return tuple(steps)
    if any(map(_changes_inputs, steps)):
        return tuple(steps)
    found = list(steps)
    for _ in range(random.choice([1, 1, 2])):
        at = random.randint(1, len(found))
        topic = random.randrange(len(settings.inputs))
        partition = random.randrange(settings.inputs[topic])
        share = random.choice([0.1, 0.3, 0.5, 0.9])
        lose = LoseTail(topic, partition, share)
        new = [Step(moment_of(random, lose), random.randrange(settings.routers), lose)]
        if random.random() < _LOSES_SHARE * 2:
            new.append(Step(When(0, seconds=random.choice(_PAUSES)), 0, KillAt("r")))
        if random.random() < 1 - _LOSES_SHARE:
            new.append(source.to(random, topic, partition))
        found[at:at] = new
    return tuple(found)


def _add_silence(random: Random, settings: Settings, steps: list[Step]) -> None:
    """Let a client stop fetching, or be refused, in some schedules; the others stay as they are."""
    if random.random() >= _SILENCE_SHARE:
        return
    topic = random.randrange(len(settings.inputs))
    name, partition = input_topic(topic), random.randrange(settings.inputs[topic])
    router, worker = random.randrange(settings.routers), random.randrange(settings.partitions)
    silences: list[tuple[int, Action]] = [
        (router, StopFetching(name, partition, "r")),
        (router, StopFetching(EPOCHS, process="r")),
        (worker, StopFetching(REPARTITION, worker)),
        (worker, StopFetching(OUTPUT, worker)),
        (0, Refuse(Right.READ, name, random.choice(_AWAY_SECONDS))),
    ]
    number, silence = random.choice(silences)
    at = random.randrange(1, len(steps) + 1)
    steps.insert(at, Step(moment_of(random, silence), number, silence))


def _with_manifests(seed: int, settings: Settings, steps: list[Step]) -> list[Step]:
    """Let some streams lose inputs, and mostly regain them.

    Of a generator of its own, so that the other schedules stay as they were.
    """
    random, count = Random(f"{seed} manifests"), len(settings.inputs)
    if count < 2 or random.random() >= _MANIFESTS_SHARE:
        return steps
    some = [
        tuple(sorted(random.sample(range(count), random.randint(1, count))))
        for _ in range(random.choice([1, 1, 2, 3]))
    ]
    for topics in [*some, *([tuple(range(count))] if random.random() < _REGAINS_SHARE else [])]:
        when = When(random.randint(1, 40), seconds=random.choice([0.5, 5.0, 20.0]))
        change = ChangeInputs(topics, random.choice([0.0, 0.5, 5.0]))
        after = max((n for n, each in enumerate(steps, 1) if _changes_inputs(each)), default=0)
        steps.insert(random.randint(after, len(steps)), Step(when, 0, change))
    return steps


def _changes_inputs(step: Step) -> bool:
    return isinstance(step.action, ChangeInputs)


def _settings(random: Random) -> Settings:
    inputs = tuple(random.choice([1, 2, 3]) for _ in range(random.choice([1, 1, 2, 3])))
    batch = random.choice([5, 20, 10_000])
    sides = random.random() < 0.15
    return Settings(
        partitions=random.choice([1, 2, 2, 3]),
        inputs=inputs,
        routers=random.choice([1, 2, 2, 3]),
        id_from=random.choice(["Key", "Header"]),
        by_key=random.random() < 0.3,
        duplicates=sides,
        exactly_once=random.random() < 0.9,
        batch_records=batch,
        transaction_records=max(batch, random.choice([20, 100_000])),
    )


def _growths(random: Random, settings: Settings) -> list[int]:
    """Choose to how many partitions the stream grows, one after the other."""
    if random.random() >= _GROWS_SHARE:
        return []
    first = settings.partitions + random.choice([1, 1, 2, 3])
    return [first, first + random.choice([1, 2])] if random.random() < _AGAIN_SHARE else [first]


def _growth(random: Random, partitions: int) -> Step:
    when = When(random.randint(1, 40), seconds=random.choice([0.5, 5.0]))
    return Step(when, 0, Grow(partitions))


def _cluster(random: Random, settings: Settings, source: "_Source", last: Step) -> Sequence[Step]:
    """Return a fault, mostly with records before it; or what meets what the last fault has left."""
    follows = _FOLLOWS.get(last.action.fault or "")
    if follows is not None and random.random() < _FOLLOW_SHARE:
        action = follows(random, settings)
        same = seat_of(action) == last.seat[0]
        number = last.partition if same else _number(random, settings, action)
        return [Step(moment_of(random, action), number, action)]
    steps = [source.step() for _ in range(random.choice([0, 1, 1, 2]))]
    if random.random() < 0.15:
        steps.append(Step(When(0, seconds=0.5), random.randrange(settings.seats), Snapshot()))
    steps.append(_fault(random, settings))
    source.see(steps[-1].action)
    return steps


def _fault(random: Random, settings: Settings) -> Step:
    known = faults_of(settings)
    while True:
        [(_, make)] = random.choices(known, [weight for weight, _ in known])
        action = make(random, settings)
        if isinstance(action, SecondWorker) and not settings.exactly_once:
            continue  # nothing fences the first one without transactions; the documentation says so
        return Step(moment_of(random, action), _number(random, settings, action), action)


def faults_of(settings: Settings) -> tuple[tuple[int, Make], ...]:
    """Return the faults that may happen, with their weights."""
    return (*_FAULTS, *_GROWTH_FAULTS) if settings.grows_to or settings.direct else _FAULTS


def _number(random: Random, settings: Settings, action: Action) -> int:
    if isinstance(action, LeaderAway) or seat_of(action) == "g":
        return 0
    return random.randrange(settings.routers if seat_of(action) == "r" else settings.seats)


def seat_of(action: Action) -> str:
    """Return the first letter of the seat that an action is about."""
    return str(getattr(action, "process", "p"))


def moment_of(random: Random, action: Action) -> When:
    """Choose a moment: any call, a call of one kind, or a time."""
    seat = seat_of(action)
    if isinstance(action, FailCall | FailCallAt):
        moment = Moment.AFTER if action.ambiguous else Moment.BEFORE
        return When(random.randint(1, 3), random.choice(_FAILING[seat]), moment)
    kind = random.random()
    if kind < 0.3:
        return When(random.randint(1, 60))
    if kind < 0.85:
        moment = random.choice([Moment.BEFORE, Moment.AFTER])
        return When(random.randint(1, 4), random.choice(_CALLS[seat]), moment)
    return When(0, seconds=random.choice([0.01, 0.5, 2.0, 4.0, 12.0]))


def _topic(random: Random, settings: Settings) -> str:
    inputs = [input_topic(number) for number in range(len(settings.inputs))]
    return random.choice([*inputs, REPARTITION, OUTPUT, EPOCHS])


class _Source:
    """Makes the records: mostly fresh ids, the others repeat what any input was sent."""

    def __init__(self, random: Random, settings: Settings) -> None:
        self._random = random
        self._settings = settings
        self._partitions = list(settings.inputs)
        self._next = 0
        self._sent = 0

    def see(self, action: Action) -> None:
        """Send to added partitions, too."""
        if isinstance(action, AddInputPartition):
            self._partitions[action.topic] += 1

    def step(self) -> Step:
        """Return a step that sends some records."""
        items = tuple(self._item() for _ in range(self._random.choice([5, 10, 30, 60])))
        when = When(self._random.randint(0, 20), seconds=self._random.choice(_PAUSES))
        return self._send(when, items)

    def to(self, random: Random, topic: int, partition: int) -> Step:
        """Return a step that sends as many records to a partition as a step may have sent to it."""
        items = tuple(self._item() for _ in range(random.choice([5, 30, 60, 60])))
        when = When(random.randint(0, 20), seconds=random.choice(_PAUSES))
        return Step(when, random.randrange(self._settings.routers), SendTo(topic, partition, items))

    def repeats(self) -> list[Step]:
        """Return steps that send every id again, when a growth has mostly ended: nothing of it may pass."""
        when = When(0, seconds=self._random.choice([0.5, 20.0]))
        return [self._send(when, tuple(map(Item, range(self._next))))]

    def _send(self, when: When, items: tuple[Item, ...]) -> Step:
        random = self._random
        topic = random.randrange(len(self._partitions))
        partition = random.randrange(self._partitions[topic])
        return Step(when, random.randrange(self._settings.routers), SendTo(topic, partition, items))

    def _item(self) -> Item:
        self._sent += 1
        kind = self._random.random()
        if kind < 0.02:
            return Item(None, self._sent)
        if kind < 0.6 or not self._next:
            self._next += 1
            return Item(self._next - 1)
        return Item(self._random.randrange(max(0, self._next - 100), self._next))
