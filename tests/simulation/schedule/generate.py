"""Make a schedule of a seed.

Faults come in clusters, because the holes are where one fault meets what another has left: a crash during a rebuild, a
second worker while a transaction is in doubt. So after each fault the next one often follows within a few calls.
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
    Forget,
    Freeze,
    Reconcile,
    ReplaceVolume,
    SecondWorker,
    Snapshot,
    StepClock,
    Stop,
    SwapVolumes,
)
from tests.simulation.schedule.input import Item, Send, with_transactions
from tests.simulation.schedule.settings import GROUP, INPUT, OUTPUT, Settings
from tests.simulation.schedule.steps import Action, Schedule, Step, When
from tests.simulation.schedule.topics import (
    DAMAGE_SHARE,
    REFUSE_SHARE,
    AddPartitions,
    Damage,
    ExpireOffsets,
    ForeignWrite,
    LeaderAway,
    LoseInput,
    Recreate,
    Refuse,
    Retain,
    TerminateTransactions,
)

Make = Callable[[Random, Settings], Action]

_TIMED_OUT: Final = KafkaError._TIMED_OUT  # noqa: SLF001 (a public name)
_TRANSPORT: Final = KafkaError._TRANSPORT  # noqa: SLF001
_AFTER: Final = Moment.AFTER
_BEFORE: Final = Moment.BEFORE
_CALLS: Final = (
    "commit_transaction",
    "send_offsets_to_transaction",
    "init_transactions",
    "begin_transaction",
    "consume",
    "poll",
    "flush",
    "commit",
    "committed",
    "describe_topics",
    "list_offsets",
    "abort_transaction",
    "close",
)
_FAILING: Final = (
    "commit_transaction",
    "send_offsets_to_transaction",
    "init_transactions",
    "commit",
    "committed",
)

_BETWEEN_SHARE: Final = 0.3
"""Of the writes of others, those between two batches of a worker."""

_SHORT_AGES: Final = (60, 120)
# Seconds between two steps: ids age within a schedule only if their maxAge is short and the schedule is slow.
_PAUSES: Final = (0.1, 1.0, 3.0)
_LONG_PAUSES: Final = (1.0, 15.0, 40.0)

# Seconds without a leader or a coordinator; the last one is longer than a transaction may be open.
_AWAY_SECONDS: Final = (1.0, 10.0, 40.0, 90.0)

_FAULTS: Final[tuple[tuple[int, Make], ...]] = (
    (14, lambda r, _: Crash(power=False, down_seconds=_down(r))),
    (8, lambda r, _: Crash(power=True, down_seconds=_down(r))),
    (4, lambda r, _: Stop(down_seconds=_down(r))),
    (5, lambda r, _: Freeze(r.choice([5.0, 30.0, 61.0, 90.0, 400.0]))),
    (8, lambda r, _: FailCall(r.choice([_TIMED_OUT, _TRANSPORT]), ambiguous=True)),
    (5, lambda r, _: FailCall(r.choice([_TIMED_OUT, _TRANSPORT]), ambiguous=False)),
    (6, lambda r, _: SecondWorker(r.choice(["empty", "copy", "snapshot"]))),
    (5, lambda r, _: ReplaceVolume("snapshot", _down(r))),
    (4, lambda r, _: ReplaceVolume("empty", _down(r))),
    (4, lambda r, _: DamageStore(r.random())),
    (8, lambda r, s: SwapVolumes(r.randrange(s.partitions))),
    (3, lambda r, _: StepClock(r.choice([-3600.0, -60.0, 60.0, 3600.0, 40 * 86400.0]))),
    (3, lambda _r, _s: Checkpoint()),
    (2, lambda r, _: Forget(tuple(r.randrange(100) for _ in range(3)))),
    (2, lambda r, _: Reconcile(r.randrange(1000), full=r.random() < 0.5)),
    (6, lambda _r, _s: Recreate(INPUT)),
    (4, lambda _r, _s: Recreate(OUTPUT)),
    (4, lambda r, _: Retain(OUTPUT, r.choice([0.2, 0.5, 1.0]))),
    (3, lambda r, _: Retain(INPUT, r.choice([0.2, 0.5]))),
    (2, lambda _r, _s: AddPartitions()),
    (4, lambda r, _: ForeignWrite(r.randint(1, 10))),
    (
        6,
        lambda r, _: ForeignWrite(
            r.randint(1, 10),
            transactional=True,
            open_seconds=r.choice([0.0, 3.0, 20.0, 60.0]),
            commit=r.random() < 0.6,
        ),
    ),
    (3, lambda _r, _s: TerminateTransactions()),
    (4, lambda _r, _s: ExpireOffsets()),
    (3, lambda r, _: LeaderAway(r.choice([INPUT, OUTPUT, None]), r.choice(_AWAY_SECONDS))),
)


_LOSES_SHARE: Final = 0.1
_DOWN_SHARE: Final = 0.4
_REPLACED_SHARE: Final = 0.9
_FOLLOW_SHARE: Final = 0.3
_KILL: Final[Make] = lambda r, _: Crash(power=False, down_seconds=_down(r))  # noqa: E731 (typed)
_RESTARTS: Final = frozenset(
    {"kill", "power loss", "stop", "snapshot restored", "volume lost", "store damaged"}
)
_FOLLOWS: Final[dict[str, Make]] = {
    "raw topic recreated": lambda r, _: Retain(INPUT, r.choice([0.2, 0.5])),
    "clean topic recreated": _KILL,
    "foreign records": _KILL,
    "foreign transaction": _KILL,
    **dict.fromkeys(_RESTARTS, _KILL),  # within the start that follows
}
"""What meets what these faults have left, and seldom follows them by chance."""


def schedule_of(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    random = Random(f"{seed} schedule")
    settings = _settings(random)
    steps: list[Step] = []
    slow = settings.max_age_seconds in _SHORT_AGES and random.random() < 0.7
    source = _Source(random, settings, _LONG_PAUSES if slow else _PAUSES)
    steps += [_send(random, source, partition) for partition in range(settings.partitions)]
    faults = random.choice([2, 2, 3, 3, 4, 5, 7])
    for _ in range(faults):
        happened = [step.action for step in steps]
        following = _following(random, happened)
        if following is None:
            steps += [
                _send(random, source, random.randrange(settings.partitions))
                for _ in range(random.choice([0, 1, 1, 2]))
            ]
            if random.random() < 0.3:
                steps.append(Step(_when(random), random.randrange(settings.partitions), Snapshot()))
        steps.append(_fault(random, settings, happened, following, steps[-1]))
        if isinstance(steps[-1].action, Forget):
            steps.append(_send_again(random, steps[-1].action, steps[-1].partition))
    while source.sent < 60 or random.random() < 0.5:
        steps.append(_send(random, source, random.randrange(settings.partitions)))
    random = Random(f"{seed} damage")  # of its own: all other schedules are as without it
    if random.random() < DAMAGE_SHARE:
        damage = Damage.chosen(random, random.choice([INPUT, OUTPUT]))
        step = Step(_when(random), random.randrange(settings.partitions), damage)
        steps.insert(random.randint(1, len(steps)), step)
    _add_refusal(Random(f"{seed} refusal"), settings, steps)
    lossy = _with_losses(seed, settings, steps, source)
    return Schedule(seed, settings, with_transactions(seed, lossy))


def _add_refusal(random: Random, settings: Settings, steps: list[Step]) -> None:
    """Let a right be refused for a while, in some schedules; the others stay as they are."""
    if random.random() >= REFUSE_SHARE:
        return
    partition = random.randrange(settings.partitions)
    right, name = random.choice(
        [
            (Right.READ, INPUT),
            (Right.READ, OUTPUT),
            (Right.WRITE, OUTPUT),
            (Right.GROUP, GROUP),
            (Right.TRANSACT, f"{GROUP}.{partition}"),
        ]
    )
    step = Step(_when(random), partition, Refuse(right, name, random.choice(_AWAY_SECONDS)))
    steps.insert(random.randint(1, len(steps)), step)


def _with_losses(
    seed: int, settings: Settings, steps: Sequence[Step], source: "_Source"
) -> tuple[Step, ...]:
    """Let the input lose its tail in some schedules, and mostly get other records in its place.

    It has random numbers of its own, so all other schedules are as without it.
    """
    random = Random(f"{seed} losses")
    if random.random() >= _LOSES_SHARE or not (settings.exactly_once and settings.topic_ids):
        return tuple(steps)
    found = list(steps)
    for _ in range(random.choice([1, 1, 2])):
        at = random.randint(1, len(found))
        partition = random.randrange(settings.partitions)
        lose = Step(_when(random), partition, LoseInput(random.choice([0.1, 0.3, 0.5, 0.9])))
        new = [lose]
        if random.random() < _DOWN_SHARE:
            down = Crash(power=random.random() < 0.5, down_seconds=_down(random))
            new.insert(random.choice([0, 1]), Step(_when(random), partition, down))
        if random.random() < _REPLACED_SHARE:
            new.append(_send(random, source, partition))
        found[at:at] = new
    return tuple(found)


def _settings(random: Random) -> Settings:
    """Choose a configuration: mostly simple, so that most seeds explore the faults."""
    if random.random() < 0.4:
        return _with_transactions(random, Settings(exactly_once=random.random() < 0.75))
    table = 4096 if random.random() < 0.15 else None
    sides = random.random() < 0.4
    settings = Settings(
        partitions=random.choice([1, 1, 2]),
        exactly_once=random.random() < 0.75,
        id_from=random.choice(["Key", "Key", "Header"]),
        duplicates=sides and random.random() < 0.7,
        conflicts=sides and random.random() < 0.7,
        late=sides and random.random() < 0.5,
        table_slots=table,
        max_age_seconds=random.choice([28 * 86400, 28 * 86400, 3600, *_SHORT_AGES]),
        window_ids=random.choice([100_000, 100_000, 250, 60]),
        generations=random.choice([2, 5]),
    )
    if random.random() < 0.1:
        settings = replace(settings, topic_ids=False, accept_unproved=random.random() < 0.5)
    return _with_transactions(random, settings)


def _with_transactions(random: Random, settings: Settings) -> Settings:
    batch = random.choice([5, 20, 10_000])
    largest = max(batch, random.choice([20, 50, 100_000]))
    return replace(settings, batch_records=batch, transaction_records=largest)


class _Source:
    """Makes the records: mostly fresh ids, the others repeat what was sent."""

    def __init__(self, random: Random, settings: Settings, pauses: Sequence[float]) -> None:
        self.pauses = pauses
        self._random = random
        self._settings = settings
        self._next: dict[int, int] = {}
        self.sent = 0

    def items(self, partition: int, count: int) -> tuple[Item, ...]:
        return tuple(self._item(partition) for _ in range(count))

    def _item(self, partition: int) -> Item:
        self.sent += 1
        random, sent = self._random, self._next.get(partition, 0)
        kind = random.random()
        late = self._settings.late and random.random() < 0.05
        age = random.choice([60, 600, 90_000]) if late else 0
        if kind < 0.02:
            return Item(None, self.sent)
        if kind < 0.65 or not sent:
            self._next[partition] = sent + 1
            return Item(sent, 0, age)
        near = kind < 0.85
        repeated = random.randrange(max(0, sent - 10), sent) if near else random.randrange(sent)
        version = int(self._settings.conflicts and random.random() < 0.2)
        return Item(repeated, version, age)


def _send(random: Random, source: _Source, partition: int) -> Step:
    count = random.choice([10, 30, 40, 60, 80])
    calls = 0 if source.pauses is _LONG_PAUSES else random.randint(0, 30)
    when = When(calls, seconds=random.choice(source.pauses))
    return Step(when, partition, Send(source.items(partition, count)))


def _send_again(random: Random, forget: Forget, partition: int) -> Step:
    """Repeat what was forgotten."""
    items = tuple(Item(each, 0) for each in forget.ids)
    return Step(When(random.randint(1, 20)), partition, Send(items))


def _following(random: Random, happened: list[Action]) -> Make | None:
    """Choose what follows the last fault at once, or nothing."""
    faults = [each.fault for each in happened if each.fault]
    following = _FOLLOWS.get(faults[-1]) if faults else None
    return following if random.random() < _FOLLOW_SHARE else None


def _fault(
    random: Random, settings: Settings, happened: list[Action], following: Make | None, last: Step
) -> Step:
    weights = [weight for weight, _ in _FAULTS]
    partition = last.partition if following else random.randrange(settings.partitions)
    while True:
        [(_, make)] = random.choices(_FAULTS, weights)
        action = (following or make)(random, settings)
        if _fits(action, settings, partition) and _is_known(action, happened):
            when = _moment_of(random, action)
            if following and last.action.fault in _RESTARTS:
                when = When(random.randint(1, 60))
            return Step(when, partition, action)
        following, partition = None, random.randrange(settings.partitions)


def _fits(action: Action, settings: Settings, partition: int) -> bool:
    """Return whether an action is possible, and its outcome defined, in these settings."""
    match action:
        case SwapVolumes(other=other):
            return other != partition
        case SecondWorker():
            # Nothing fences the first one without transactions; the documentation says so.
            return settings.exactly_once
        case Recreate():
            return settings.topic_ids
        case Retain():
            # If the last known record is gone, the worker refuses the topic until the user accepts it.
            return settings.topic_ids or settings.accept_unproved
    return True


def _is_known(action: Action, happened: list[Action]) -> bool:
    """Return whether the input offset is still known somewhere: in the group, or in the store.

    If both are lost the input is read from its begin, as documented.
    """
    lost = {_loses(each) for each in [*happened, action]}
    return not {"offsets", "store"} <= lost


def _loses(action: Action) -> str | None:
    match action:
        case ExpireOffsets():
            return "offsets"
        case ReplaceVolume() | SecondWorker() | DamageStore() | Recreate(topic="clean"):
            return "store"
    return None


def _moment_of(random: Random, action: Action) -> When:
    if isinstance(action, FailCall):
        name = random.choice(_FAILING)
        moment = _AFTER if action.ambiguous else _BEFORE
        return When(random.randint(1, 3), name, moment)
    if isinstance(action, ForeignWrite) and random.random() < _BETWEEN_SHARE:
        return When(random.randint(1, 6), "send", _AFTER)
    return _when(random)


def _when(random: Random) -> When:
    """Choose a moment: any call, a call of one kind, or a time."""
    kind = random.random()
    if kind < 0.4:
        return When(random.randint(1, 40))
    if kind < 0.85:
        moment = random.choice([_BEFORE, _AFTER])
        return When(random.randint(1, 4), random.choice(_CALLS), moment)
    return When(0, seconds=random.choice([0.01, 0.5, 2.0, 12.0]))


def _down(random: Random) -> float:
    return random.choice([0.0, 1.0, 1.0, 10.0, 70.0])
