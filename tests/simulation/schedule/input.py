"""Records to send: fresh ids, repeats near and far, records without id, late and conflicting ones."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.kafka.log import Headers, Record

if TYPE_CHECKING:
    from tests.simulation.world import World


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
        world.send(partition, records)
        known = [each.id for each in self.items if each.id is not None]
        world.next_ids[partition] = max([world.next_ids[partition], *(each + 1 for each in known)])


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
