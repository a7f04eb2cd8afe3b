"""Schedules: what users, nodes and the API server do to a stream, made by a seed.

The same seed makes the same schedule on any machine. A step keeps its meaning when others are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from tests.operator_simulation.controllers import NODE_NAMES

WRITE_FAULTS: Final = (
    "killed before",
    "killed after",
    "answer lost",
    "timeout",
    "refused",
    "conflict",
    "frozen",
    "late",
)

_FAULTY: Final = 0.6
"""The probability of a fault of the write that follows a step."""

REFUSED: Final = (
    "ConfigMap",
    "PersistentVolumeClaim",
    "Service",
    "StatefulSet",
    "PodDisruptionBudget",
    "DedupeSnapshot",
    "VolumeSnapshot",
)
"""Kinds of which a quota or a webhook may refuse to create any."""

FORBIDDEN: Final = ("Secret", "Pod", "PersistentVolumeClaim", "StatefulSet", "DedupeSnapshot")
"""Kinds that the operator may lose its right to read."""

_REFUSALS: Final = 0.4
"""The probability of a time in which the API server refuses a kind."""

_GROUPS_REFUSED: Final = 0.15
"""The probability of a time in which the API server refuses the objects of groups."""

BUCKETS: Final = ("b-1", "b-2")
"""Buckets that a user chooses."""

_MOVES: Final = 0.7
"""The probability that a stream with a bucket gets another one."""

_ON_EBS: Final = 0.4
"""The probability that copies of volumes are those of Amazon EBS."""

_STORIES: Final = 0.2
"""The probability of a volume that is lost when only a copy has its oldest ids."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step: `what` happens, with its parts, `rounds` rounds after the step before it."""

    rounds: int
    what: str
    to: str = ""
    number: int = 0

    def __str__(self) -> str:
        return f"+{self.rounds} {self.what} {self.to} {self.number}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A seed's settings and steps. `slow`: how often a controller misses a round."""

    seed: int
    partitions: int
    provider: str
    slow: float
    steps: tuple[Step, ...]


def generate(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    random = Random(f"operator {seed}")
    makers: list[tuple[int, Callable[[], Step]]] = [
        (2, lambda: _step(random, "unreadable", "", random.randint(1, 12))),
        (2, lambda: _step(random, "stale", "", random.randint(1, 4))),
        (3, lambda: _step(random, "image", "", random.randint(2, 4))),
        (1, lambda: _step(random, "bad-image")),
        (2, lambda: _step(random, "grow")),
        (2, lambda: _step(random, "suspend")),
        (2, lambda: _step(random, "resume")),
        (2, lambda: _step(random, "policy", random.choice(("Retain", "Delete")))),
        (4, lambda: _step(random, "snapshot", "", random.randrange(3))),
        (2, lambda: _step(random, "delete-snapshot", "", random.randrange(3))),
        (3, lambda: _step(random, "restore", random.choice(("topic", "copy")), _partition(random))),
        (3, lambda: _step(random, "delete-claim", "", _partition(random))),
        (2, lambda: _step(random, "evict", "", _partition(random))),
        (1, lambda: _step(random, "delete-set", "", _partition(random))),
        (2, lambda: _step(random, "dark", random.choice(NODE_NAMES))),
        (2, lambda: _step(random, "cut", random.choice(NODE_NAMES))),
        (1, lambda: _step(random, "gone", random.choice(NODE_NAMES))),
        (3, lambda: _step(random, "back", random.choice(NODE_NAMES))),
        (1, lambda: _step(random, "silent", "", _partition(random))),
        (1, lambda: _step(random, "kafka-out")),
        (2, lambda: _step(random, "kafka-back")),
        (2, lambda: _step(random, "expire", "", _partition(random))),
        (1, lambda: _step(random, "delete-stream")),
        (3, lambda: _step(random, "settle")),
    ]
    weights = [weight for weight, _ in makers]
    chosen = random.choices([make for _, make in makers], weights, k=random.randint(3, 9))
    steps: list[Step] = []
    for make in chosen:
        step = make()
        if random.random() < _FAULTY:
            # Just before what makes the operator write.
            fault = random.choice(WRITE_FAULTS)
            steps.append(Step(step.rounds, "fault", fault, random.choice((0, 0, 1, 1, 2, 3, 5, 8))))
            step = replace(step, rounds=0)
        steps.append(step)
    partitions, provider = random.randint(1, 3), random.choice(("CSI", "CSI", "S3", ""))
    if provider == "CSI" and Random(f"ebs {seed}").random() < _ON_EBS:
        provider = "EBS"
    steps = _with_refusals(seed, steps)
    if provider == "S3":
        steps = _with_moves(seed, steps)
    if provider == "EBS":
        steps = [*steps, *_refused_restore(seed)]
    return Schedule(
        seed=seed,
        partitions=partitions,
        provider=provider,
        slow=random.choice((0.0, 0.2, 0.5)),
        steps=(*_with_groups_refused(seed, steps), *_story(seed)),
    )


def _with_refusals(seed: int, steps: list[Step]) -> list[Step]:
    """Add a time in which creates or reads of a kind are refused; most seeds have none."""
    random = Random(f"refusals {seed}")
    if random.random() >= _REFUSALS:
        return steps
    if random.random() < 0.5:
        begin = [_step(random, "forbid", random.choice(FORBIDDEN))]
    else:
        lost = random.choice(
            (
                _step(random, "delete-claim", number=_partition(random)),
                _step(random, "delete-snapshot", number=random.randrange(3)),
            )
        )
        kind = random.choice(REFUSED)
        tuned = _step(random, "tune", number=random.randint(2, 9))
        begin = [_step(random, "refuse", kind), tuned, lost]
    first = random.randint(0, len(steps))
    last = random.randint(first, len(steps))
    end = Step(random.choice((2, 6, 14, 28)), "permit")
    return [*steps[:first], *begin, *steps[first:last], end, *steps[last:]]


def _with_groups_refused(seed: int, steps: list[Step]) -> list[Step]:
    """Add a time in which no group can be created, or read; most seeds have none."""
    random = Random(f"groups {seed}")
    if random.random() >= _GROUPS_REFUSED:
        return steps
    what = random.choice(("refuse", "refuse", "forbid"))
    first = random.randint(0, len(steps))
    begin = [
        _step(random, what, "DedupeStreamPartitions"),
        _step(random, "restore", "topic", _partition(random)),
        _step(random, "delete-claim", "", _partition(random)),
    ]
    end = Step(random.choice((2, 6, 14)), "permit")
    return [*steps[:first], *begin, end, *steps[first:]]


def _with_moves(seed: int, steps: list[Step]) -> list[Step]:
    """Add moves to another bucket, and times in which the workers may not use one."""
    random = Random(f"moves {seed}")
    if random.random() >= _MOVES:
        return steps
    steps = list(steps)
    makers: tuple[Callable[[], list[Step]], ...] = (
        lambda: [Step(2, "snapshot", number=random.randrange(3)), Step(0, "settle")],
        lambda: [_step(random, "bucket", random.choice(BUCKETS))],
        lambda: [_step(random, "deny", random.choice(BUCKETS))],
        lambda: [_step(random, "allow", random.choice(BUCKETS))],
        lambda: [_step(random, "delete-snapshot", number=random.randrange(3))],
        lambda: [_step(random, "delete-claim", number=_partition(random))],
    )
    for make in random.choices(makers, k=random.randint(2, 6)):
        at = random.randint(0, len(steps))
        steps[at:at] = make()
    if random.random() < _MOVES / 2:
        copy = random.randrange(3)
        moved = [
            Step(0, "snapshot", number=copy),
            Step(0, "settle"),
            Step(0, "deny" if random.random() < 0.5 else "settle", BUCKETS[0]),
            Step(0, "bucket", BUCKETS[1]),
            Step(0, "settle"),
            Step(14, random.choice(("delete-snapshot", "delete-claim")), number=copy),
            Step(14, "settle"),
        ]
        steps += moved
    return steps


def _refused_restore(seed: int) -> list[Step]:
    """Return a restore whose claim, or whose PersistentVolume, is refused; or nothing."""
    random = Random(f"refused restore {seed}")
    partition, refused = random.randrange(2), random.choice(("PersistentVolume", REFUSED[1]))
    if random.random() >= _REFUSALS:
        return []
    return [
        Step(0, "snapshot", number=random.randrange(3)),
        Step(0, "settle"),
        Step(0, "refuse", refused),
        Step(0, "delete-claim", number=partition),
        Step(random.choice((2, 6)), random.choice(("delete-claim", "evict")), number=partition),
        Step(random.choice((2, 6)), "delete-claim", number=partition),
        Step(random.choice((2, 14)), "permit"),
    ]


def _story(seed: int) -> list[Step]:
    """Return steps that only as a whole tell something; most seeds have none."""
    random = Random(f"story {seed}")
    partition = random.randrange(2)
    loss = [
        Step(0, "settle"),
        Step(0, "expire", number=partition),
        Step(2, "snapshot", number=random.randrange(3)),
        Step(0, "settle"),
        Step(0, "fault", random.choice(WRITE_FAULTS), random.randrange(3)),
        Step(0, "delete-claim", number=partition),
        Step(4, "resume"),
    ]
    if random.random() < _STORIES:
        return loss
    copy = random.randrange(3)
    full = [
        Step(0, "snapshot", number=copy),
        Step(0, "settle"),
        Step(0, "settle"),
        Step(0, "refuse", "DedupeSnapshot"),
        # By then a scheduled one is due.
        Step(28, "delete-snapshot", number=copy),
        Step(14, "permit"),
    ]
    return full if random.random() < _STORIES / 2 else []


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Leave out steps as long as the schedule still fails."""
    shrunk = True
    while shrunk:
        shrunk = False
        for at in reversed(range(len(schedule.steps))):
            shorter = replace(schedule, steps=schedule.steps[:at] + schedule.steps[at + 1 :])
            if fails(shorter):
                schedule, shrunk = shorter, True
    return schedule


def _step(random: Random, what: str, to: str = "", number: int = 0) -> Step:
    return Step(random.choice((0, 0, 1, 1, 2, 4)), what, to, number)


def _partition(random: Random) -> int:
    return random.randrange(3)
