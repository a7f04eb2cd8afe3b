"""The size of a partition's inverse Bloom table, and the share that it retains.

`dedupe size --inverse-bloom` calls `table_size` and `render`. Pure: no I/O.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

import yaml

from dedupe_crds.quantity import format_size
from dedupe_local.sizing.report import Row, as_text, count, size_text
from dedupe_local.sizing.rocksdb import VOLUME, VOLUME_WITH_CHECKPOINT, round_bytes
from dedupe_worker.store.inverse_bloom.segments import SEGMENT_SLOTS
from dedupe_worker.store.inverse_bloom.sizing import (
    LEAST_SLOTS,
    MOST_SLOTS,
    half_life,
    messages_for,
    retained,
    slot_bytes,
    slots_for,
    slots_in,
)
from dedupe_worker.values import ValueLayout

_RETAINS: Final = (0.99, 0.9, 0.5, 0.1)
_PROCESS_BYTES: Final = 200 << 20
"""Memory of a worker without its store."""


class Routes(StrEnum):
    """The side topics of a stream that need wider slots."""

    NONE = "none"
    DUPLICATES = "duplicates"
    CONFLICTS = "conflicts"

    @property
    def value_bytes(self) -> int:
        """Return the bytes of a slot in addition to its id.

        >>> [routes.value_bytes for routes in Routes]
        [8, 14, 18]
        """
        layout = ValueLayout(timed=self is not Routes.NONE, hashed=self is Routes.CONFLICTS)
        return layout.dtype.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The table that the user asks for.

    It is given by `slots`, by `memory` in bytes, or by `messages` with `retain`.
    """

    routes: Routes = Routes.NONE
    slots: int | None = None
    memory: int | None = None
    messages: int | None = None
    retain: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """The size of one partition's table.

    `retained` is the share that is left after `Wanted.messages`, if that is given.
    """

    slots: int
    slot_bytes: int
    table_bytes: int
    memory_bytes: int
    volume_bytes: int
    half_life_messages: int
    retained: float | None


def table_size(wanted: Wanted, *, snapshots: bool) -> TableSize:
    """Calculate a table's size.

    Raises ValueError if `wanted` is incomplete, or if no table can have that size.
    """
    slots = _slots(wanted)
    if not LEAST_SLOTS <= slots <= MOST_SLOTS:
        raise ValueError(
            f"that is a table of {slots:,} slots, but a table has from {LEAST_SLOTS:,} to {MOST_SLOTS:,}: use more "
            "partitions, or another share"
        )
    each = slot_bytes(wanted.routes.value_bytes)
    return TableSize(
        slots=slots,
        slot_bytes=each,
        table_bytes=slots * each,
        memory_bytes=round_bytes(slots * each + _PROCESS_BYTES),
        volume_bytes=round_bytes(_volume(slots * each, each, snapshots=snapshots)[0]),
        half_life_messages=half_life(slots),
        retained=retained(slots, wanted.messages) if wanted.messages else None,
    )


def render(wanted: Wanted, found: TableSize, form: str, *, snapshots: bool) -> str:
    """Render the size in the format `form`.

    That is JSON, fields for a manifest, or a table with formulas followed by these fields.
    """
    match form:
        case "json":
            return json.dumps({"wanted": asdict(wanted), "size": asdict(found)}, indent=2)
        case "yaml-fragment":
            return _fragment(wanted, found)
        case _:
            text = as_text(_rows(wanted, found, snapshots=snapshots), _NOTES)
            return f"{text}\n\n{_fragment(wanted, found)}"


_NOTES: Final = [
    "A message overwrites the id of an earlier message if both have the same slot of the N slots. A message misses a "
    "certain slot with probability 1 - 1/N, and x messages all miss it with (1 - 1/N)^x: "
    "P(lost after x) = 1 - (1 - 1/N)^x. If an id is lost, a duplicate of it passes; a new message is never taken for a "
    "duplicate. The sooner a duplicate comes, the more likely it is found.",
    "Messages are those that pass on one partition: a duplicate that is found overwrites nothing. All figures are of "
    "one partition. A slot of 24 bytes takes 30 with duplicates.policy: Topic (--routes duplicates), and 34 with "
    "conflicts.policy: Topic (--routes conflicts).",
    "A change of the number of slots, or of their width (by the routes), begins an empty table. The previous table is "
    "still searched until its ids are too old, or until as many messages have come as it has slots. Until then memory "
    "and volume must hold both.",
]


_VALUES: Final = {
    Routes.NONE: "an id of 16 B and its owner",
    Routes.DUPLICATES: "an id of 16 B, its owner and its time",
    Routes.CONFLICTS: "an id of 16 B, its owner, its time and a hash of its content",
}


def _volume(table: int, slot: int, *, snapshots: bool) -> tuple[float, str]:
    """Return the bytes of a volume for a table, and their formula.

    `table` and `slot` are in bytes. Even a small table needs space for new segments, as a segment is written before the
    one that it replaces is deleted, and for the file system.
    """
    times, tables = (VOLUME_WITH_CHECKPOINT, 2) if snapshots else (VOLUME, 1)
    of_checkpoint = ", with a checkpoint" if snapshots else ""
    segment = SEGMENT_SLOTS * slot
    if table * times >= table * tables + 2 * segment:
        return table * times, f"table * {times:g}{of_checkpoint}"
    small = table * tables + 2 * segment
    return small, f"table * {tables} + 2 segments of {size_text(segment)}{of_checkpoint}"


def _slots(wanted: Wanted) -> int:
    if wanted.retain is not None and wanted.messages is None:
        raise ValueError(
            "--retain needs --messages: the number of messages after which that share must be left"
        )
    target = wanted.messages is not None and wanted.retain is not None
    if [wanted.slots is not None, wanted.memory is not None, target].count(True) != 1:
        raise ValueError("give the size by one of --slots, --memory, or --messages with --retain")
    if wanted.slots is not None:
        return wanted.slots
    if wanted.memory is not None:
        return slots_in(wanted.memory, wanted.routes.value_bytes)
    assert wanted.messages is not None  # noqa: S101 (see `target`)
    assert wanted.retain is not None  # noqa: S101
    return max(LEAST_SLOTS, slots_for(wanted.messages, wanted.retain))


def _rows(wanted: Wanted, found: TableSize, *, snapshots: bool) -> list[Row]:
    _, volume = _volume(found.table_bytes, found.slot_bytes, snapshots=snapshots)
    rows = [
        Row("slots N", f"{found.slots:,}", _origin(wanted, found)),
        Row(
            "table",
            size_text(found.table_bytes),
            f"N * {found.slot_bytes} B: {_VALUES[wanted.routes]}",
        ),
        Row("memory", size_text(found.memory_bytes), f"table + {size_text(_PROCESS_BYTES)}"),
        Row("volume", size_text(found.volume_bytes), volume),
    ]
    if wanted.messages and found.retained is not None:
        after = count(wanted.messages)
        rows.append(
            Row(
                f"retained after {after} messages",
                f"{found.retained:.2%}",
                f"(1 - 1/N)^({after}); {1 - found.retained:.2%} lost",
            )
        )
    rows += [
        Row(
            f"messages until {retain:.0%} are left",
            count(messages_for(found.slots, retain)),
            f"log({retain:g}) / log(1 - 1/N)",
        )
        for retain in _RETAINS
    ]
    return rows


def _origin(wanted: Wanted, found: TableSize) -> str:
    if wanted.slots is not None:
        return "as given"
    if wanted.memory is not None:
        return f"{size_text(wanted.memory)} / {found.slot_bytes} B"
    return f"1 / (1 - {wanted.retain:g}^(1 / {count(wanted.messages or 0)}))"


def _fragment(wanted: Wanted, found: TableSize) -> str:
    """Return the fields of a manifest's spec, as YAML."""
    given: dict[str, Any] = {
        "slots": wanted.slots,
        "memory": None if wanted.memory is None else format_size(wanted.memory),
    }
    if wanted.retain is not None:
        given |= {"messages": wanted.messages, "retain": wanted.retain}
    table = {name: value for name, value in given.items() if value is not None}
    memory = format_size(found.memory_bytes)
    spec = {
        "store": {"type": "InverseBloom", "inverseBloom": table},
        "storage": {"size": format_size(found.volume_bytes)},
        "worker": {"resources": {"requests": {"memory": memory}, "limits": {"memory": memory}}},
    }
    return yaml.safe_dump({"spec": spec}, sort_keys=False).rstrip()
