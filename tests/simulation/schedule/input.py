"""Records to send: fresh ids, repeats near and far, records without id, late and conflicting ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.kafka.log import Headers, Record
from tests.simulation.schedule.settings import INPUT
from tests.simulation.schedule.steps import Action, Step

if TYPE_CHECKING:
    from tests.simulation.world import World

_TRANSACTIONS_SHARE: Final = 0.1
_COMMITTED_SHARE: Final = 0.7
_OPEN_SECONDS: Final = (0.01, 0.5, 5.0, 70.0)


@dataclass(frozen=True, slots=True)
class Item:
    """One record: `id` None has no id, `version` tells contents of an id apart, `age_seconds` makes it late."""

    id: int | None
    version: int = 0
    age_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Send:
    """Send records to the input."""

    items: tuple[Item, ...]

    fault = None

    def __str__(self) -> str:
        return f"send {shown(self.items)}"

    def perform(self, world: "World", partition: int) -> None:
        """Append them to the partition, with timestamps of now."""
        now_ms = world.clock.time_ms()
        records = [
            record_of(each, now_ms, partition, world.settings.id_from) for each in self.items
        ]
        world.send(INPUT, partition, records)
        known = [each.id for each in self.items if each.id is not None]
        world.next_ids[partition] = max([world.next_ids[partition], *(each + 1 for each in known)])


@dataclass(frozen=True, slots=True)
class InTransaction:
    """Send records in a transaction, which is open for a while, and then committed or aborted."""

    send: Action
    seconds: float
    commit: bool

    @property
    def fault(self) -> str:
        """Name it."""
        return "input transaction" if self.commit else "input aborted"

    @property
    def process(self) -> str:
        """Return the first letter of the seat whose calls are counted."""
        return str(getattr(self.send, "process", "p"))

    def __str__(self) -> str:
        return f"{self.fault} after {self.seconds:g} s: {self.send}"

    def perform(self, world: "World", partition: int) -> None:
        """Send them."""
        send = partial(self.send.perform, world, partition)
        world.in_transaction(send, self.seconds, commit=self.commit)


def with_transactions(seed: int, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Let producers send some records in transactions, in some schedules.

    It has random numbers of its own, so all other schedules are as without it.
    """
    random = Random(f"{seed} transactions")
    if random.random() >= _TRANSACTIONS_SHARE:
        return tuple(steps)
    share = random.choice([0.3, 1.0])
    return tuple(
        replace(each, action=_in_transaction(random, each.action))
        if each.action.fault is None and hasattr(each.action, "items") and random.random() < share
        else each
        for each in steps
    )


def _in_transaction(random: Random, send: Action) -> InTransaction:
    seconds = random.choice(_OPEN_SECONDS)
    return InTransaction(send, seconds, commit=random.random() < _COMMITTED_SHARE)


def shown(items: tuple[Item, ...]) -> str:
    """Return the number of records, and the ids of the first ones."""
    ids = ["-" if each.id is None else str(each.id) for each in items]
    return f"{len(items)} records: " + " ".join(ids[:12]) + (" …" if len(ids) > 12 else "")


def id_bytes(number: int, partition: int) -> bytes:
    """Return an id; partitions share none, as producers partition by id."""
    return b"id-%d-%06d" % (partition, number)


def record_of(item: Item, now_ms: int, partition: int, id_from: str) -> Record:
    """Return the record of an item."""
    key = None if item.id is None else id_bytes(item.id, partition)
    value = b"value %d of %s" % (item.version, key or b"none")
    timestamp_ms = now_ms - item.age_seconds * 1000
    if id_from == "Header":
        headers: Headers | None = [("id", key)] if key else None
        return Record(b"same", value, timestamp_ms, headers)
    if id_from == "Content" and key is None:
        return Record(None, None, timestamp_ms, None)
    return Record(key, value, timestamp_ms, None)
