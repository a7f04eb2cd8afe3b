"""The table of fixed size in the place of RocksDB: how large it is, and what it takes."""

from typing import Annotated

from pydantic import Field, StrictFloat, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.quantity import ByteSize
from dedupe_crds.rules import rule, size_between
from dedupe_crds.spec.topics import ConflictPolicy, Conflicts, DuplicatePolicy, Duplicates


def _least_slots(messages: int, retain: float) -> float:
    """The slots that a target takes, as a bound from below: CEL has no logarithm.

    They are messages / -ln(retain), and half a slot; with x = -ln(r), x <= sinh(x) = (1 - r^2) / 2r. The bound is
    99.8 % of them at 0.9, 92 % at 0.5, 47 % at 0.1 and 9 % at 0.01. The worker checks by the logarithm.
    """
    return messages * 2 * retain / (1 - retain * retain)


def _least_slots_cel(table: str) -> str:
    """`_least_slots` of a table, in a rule."""
    return (
        f"double({table}.messages) * 2.0 * {table}.retain / (1.0 - {table}.retain * {table}.retain)"
    )


class InverseBloom(Model):
    """How large the table of each partition is: by slots, by memory, or by what it is to retain."""

    slots: StrictInt | None = Field(
        default=None,
        ge=1024,
        le=2**32,
        description="Ids that the table holds at most. A slot takes 24 bytes; 30 with "
        "spec.duplicates.policy: Topic, and 34 with spec.conflicts.policy: Topic.",
    )
    memory: Annotated[ByteSize, size_between("64Ki", "96Gi")] | None = Field(
        default=None, description="Memory of the table; the worker takes some 200Mi beside it."
    )
    messages: StrictInt | None = Field(
        default=None,
        ge=1,
        le=10**12,
        description="Messages of the partition for which an id is to be remembered, with the chance "
        "`retain`.",
    )
    retain: StrictFloat | None = Field(
        default=None,
        ge=0.01,
        le=0.999,
        description="Share of the ids that is still remembered after so many further messages: "
        "(1 - 1/slots)^messages.",
    )

    def least_bytes(self, slot_bytes: int) -> float:
        """What a table takes, with slots of so many bytes; of a target a bound from below, see `_least_slots`."""
        if self.slots is not None:
            return float(slot_bytes * self.slots)
        if self.messages is not None and self.retain is not None:
            return slot_bytes * _least_slots(self.messages, self.retain)
        return float(self.memory or 0)

    @rule(
        "slots",
        "memory",
        "messages",
        cel="[has(self.slots), has(self.memory), has(self.messages)].filter(x, x).size() == 1",
        says="exactly one of slots, memory and messages (with retain) must be given",
    )
    @staticmethod
    def _one_way_to_say_it(*ways: int | None) -> bool:
        return sum(way is not None for way in ways) == 1

    @rule(
        "messages",
        "retain",
        cel="has(self.messages) == has(self.retain)",
        says="belongs to spec.store.inverseBloom.messages: give both, or neither",
    )
    @staticmethod
    def _retain_is_for_messages(messages: int | None, retain: float | None) -> bool:
        return (messages is None) == (retain is None)

    @rule(
        "messages",
        "retain",
        cel=f"!has(self.messages) || !has(self.retain) || {_least_slots_cel('self')} <= 4294967296.0",
        says="takes more than 2^32 slots with so many messages: use more partitions, or retain less",
    )
    @staticmethod
    def _target_fits_a_table(messages: int | None, retain: float | None) -> bool:
        return messages is None or retain is None or _least_slots(messages, retain) <= 2**32


def slot_bytes(duplicates: Duplicates, conflicts: Conflicts) -> int:
    """Bytes of a slot: an id of 16, its owner of 8, a time of 6 to tell of duplicates, a hash of 4 to see conflicts."""
    if conflicts.policy is ConflictPolicy.TOPIC:
        return 34
    return 30 if duplicates.policy is DuplicatePolicy.TOPIC else 24


def _table_bytes_cel() -> str:
    """`InverseBloom.least_bytes` of a spec, with its `slot_bytes`."""
    table = "self.store.inverseBloom"
    of_memory = f"quantity(string({table}.memory)).asApproximateFloat()"
    slot = "(self.conflicts.policy == 'Topic' ? 34.0 : self.duplicates.policy == 'Topic' ? 30.0 : 24.0)"
    return (
        f"(has({table}.slots) ? {slot} * double({table}.slots)"
        f" : has({table}.memory) && isQuantity(string({table}.memory)) ? {of_memory}"
        f" : has({table}.messages) && has({table}.retain) ? {slot} * {_least_slots_cel(table)} : 0.0)"
    )


TABLE_BYTES_CEL = _table_bytes_cel()
"""What a table takes at least, in a rule of the spec that has one."""


def table_bytes(table: InverseBloom | None, duplicates: Duplicates, conflicts: Conflicts) -> float:
    """What a table of fixed size takes at least; 0 where there is none."""
    return table.least_bytes(slot_bytes(duplicates, conflicts)) if table else 0.0


def table_fits_cel(times: float) -> str:
    """CEL for: the volume has so many times what a table of fixed size takes at least."""
    return (
        "!has(self.store.inverseBloom) || !isQuantity(string(self.storage.size)) || "
        f"quantity(string(self.storage.size)).asApproximateFloat() >= {times} * {TABLE_BYTES_CEL}"
    )
