"""Model of the inverse Bloom filter: its size, and the rules on what it needs.

`dedupe_crds.spec.store` and the rules of `dedupe_crds.spec.stream` use it.
"""

from typing import Annotated

from pydantic import Field, StrictFloat, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.quantity import ByteSize
from dedupe_crds.rules import rule, size_between
from dedupe_crds.spec.topics import ConflictPolicy, Conflicts, DuplicatePolicy, Duplicates


def _least_slots(messages: int, retain: float) -> float:
    """Return a lower bound of the slots for a target: CEL has no logarithm.

    The slots are messages / -ln(retain), and half a slot; with x = -ln(r), x <= sinh(x) = (1 - r^2) / 2r. The bound is
    99.8 % of them at 0.9, 92 % at 0.5, 47 % at 0.1 and 9 % at 0.01. The worker checks by the logarithm.
    """
    return messages * 2 * retain / (1 - retain * retain)


def _least_slots_cel(table: str) -> str:
    """Return `_least_slots` of a table, in CEL."""
    return (
        f"double({table}.messages) * 2.0 * {table}.retain / (1.0 - {table}.retain * {table}.retain)"
    )


class InverseBloom(Model):
    """Size of each partition's table: by slots, by memory, or by what it must retain."""

    slots: StrictInt | None = Field(
        default=None,
        ge=1024,
        le=2**32,
        description="Maximum number of ids in the table. A slot takes 24 bytes, 30 with "
        "spec.duplicates.policy: Topic, and 34 with spec.conflicts.policy: Topic.",
    )
    memory: Annotated[ByteSize, size_between("64Ki", "96Gi")] | None = Field(
        default=None, description="Memory of the table. The worker needs about 200Mi in addition."
    )
    messages: StrictInt | None = Field(
        default=None,
        ge=1,
        le=10**12,
        description="Number of later messages in the partition after which an id is still known with the "
        "probability retain.",
    )
    retain: StrictFloat | None = Field(
        default=None,
        ge=0.01,
        le=0.999,
        description="Share of the ids that is still known after so many later messages: (1 - 1/slots)^messages.",
    )

    def least_bytes(self, slot_bytes: int) -> float:
        """Return the bytes of a table with slots of this size.

        For a target it is a lower bound, see `_least_slots`.
        """
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
        message="exactly one of slots, memory and messages (with retain) must be given",
    )
    @staticmethod
    def _one_way_to_give_the_size(*ways: int | None) -> bool:
        return sum(way is not None for way in ways) == 1

    @rule(
        "messages",
        "retain",
        cel="has(self.messages) == has(self.retain)",
        message="belongs to spec.store.inverseBloom.messages: give both, or neither",
    )
    @staticmethod
    def _retain_is_for_messages(messages: int | None, retain: float | None) -> bool:
        return (messages is None) == (retain is None)

    @rule(
        "messages",
        "retain",
        cel=f"!has(self.messages) || !has(self.retain) || {_least_slots_cel('self')} <= 4294967296.0",
        message="needs more than 2^32 slots with so many messages: use more partitions, or retain less",
    )
    @staticmethod
    def _target_fits_a_table(messages: int | None, retain: float | None) -> bool:
        return messages is None or retain is None or _least_slots(messages, retain) <= 2**32


def slot_bytes(duplicates: Duplicates, conflicts: Conflicts) -> int:
    """Return the bytes of a slot.

    It has an id (16) and its owner (8); with routed duplicates also a time (6), with conflicts also a hash (4).
    """
    if conflicts.policy is ConflictPolicy.TOPIC:
        return 34
    return 30 if duplicates.policy is DuplicatePolicy.TOPIC else 24


def _table_bytes_cel() -> str:
    """Return `InverseBloom.least_bytes` of a spec with its `slot_bytes`, in CEL."""
    table = "self.store.inverseBloom"
    of_memory = f"quantity(string({table}.memory)).asApproximateFloat()"
    slot = "(self.conflicts.policy == 'Topic' ? 34.0 : self.duplicates.policy == 'Topic' ? 30.0 : 24.0)"
    return (
        f"(has({table}.slots) ? {slot} * double({table}.slots)"
        f" : has({table}.memory) && isQuantity(string({table}.memory)) ? {of_memory}"
        f" : has({table}.messages) && has({table}.retain) ? {slot} * {_least_slots_cel(table)} : 0.0)"
    )


TABLE_BYTES_CEL = _table_bytes_cel()
"""The least bytes of a table, in a rule of a spec that has one."""


def table_bytes(table: InverseBloom | None, duplicates: Duplicates, conflicts: Conflicts) -> float:
    """Return the least bytes of a table; 0 if there is none."""
    return table.least_bytes(slot_bytes(duplicates, conflicts)) if table else 0.0


def table_fits_cel(times: float) -> str:
    """Return a rule in CEL: a volume is at least `times` as large as the table."""
    return (
        "!has(self.store.inverseBloom) || !isQuantity(string(self.storage.size)) || "
        f"quantity(string(self.storage.size)).asApproximateFloat() >= {times} * {TABLE_BYTES_CEL}"
    )
