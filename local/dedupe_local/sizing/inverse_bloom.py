"""`dedupe size --inverse-bloom`: how large the table of a partition is, and how much it retains."""

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
_BESIDE_BYTES: Final = 200 << 20
"""Memory of a worker beside its store."""


class Routes(StrEnum):
    """What goes to a topic of its own, of which a slot must tell more."""

    NONE = "none"
    DUPLICATES = "duplicates"
    CONFLICTS = "conflicts"

    @property
    def value_bytes(self) -> int:
        """Of what is remembered of an id.

        >>> [routes.value_bytes for routes in Routes]
        [8, 14, 18]
        """
        layout = ValueLayout(timed=self is not Routes.NONE, hashed=self is Routes.CONFLICTS)
        return layout.dtype.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How a table is asked for: by `slots`, by `memory` in bytes, or by `messages` with `retain`."""

    routes: Routes = Routes.NONE
    slots: int | None = None
    memory: int | None = None
    messages: int | None = None
    retain: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """A table. Bytes are of one partition; `retained` is the share left after the messages asked about, if any were."""

    slots: int
    slot_bytes: int
    table_bytes: int
    memory_bytes: int
    volume_bytes: int
    half_life_messages: int
    retained: float | None


def table_size(wanted: Wanted, *, snapshots: bool) -> TableSize:
    """Reckon. Raises ValueError where the question is incomplete, or no table is of such a size."""
    slots = _slots(wanted)
    if not LEAST_SLOTS <= slots <= MOST_SLOTS:
        raise ValueError(
            f"that is a table of {slots:,} slots; one has from {LEAST_SLOTS:,} to {MOST_SLOTS:,}: use more partitions, "
            "or ask for another share"
        )
    each = slot_bytes(wanted.routes.value_bytes)
    return TableSize(
        slots=slots,
        slot_bytes=each,
        table_bytes=slots * each,
        memory_bytes=round_bytes(slots * each + _BESIDE_BYTES),
        volume_bytes=round_bytes(_volume(slots * each, each, snapshots=snapshots)[0]),
        half_life_messages=half_life(slots),
        retained=retained(slots, wanted.messages) if wanted.messages else None,
    )


def shown(wanted: Wanted, found: TableSize, form: str, *, snapshots: bool) -> str:
    """The answer as a table with its formulas and the manifest's lines, as JSON, or as these lines alone."""
    match form:
        case "json":
            return json.dumps({"wanted": asdict(wanted), "size": asdict(found)}, indent=2)
        case "yaml-fragment":
            return _fragment(wanted, found)
        case _:
            text = as_text(_rows(wanted, found, snapshots=snapshots), _NOTES)
            return f"{text}\n\n{_fragment(wanted, found)}"


_NOTES: Final = [
    "A message overwrites the id of another one if both fall into the same of the N slots. One misses a certain slot "
    "with the chance 1 - 1/N, and x of them do with (1 - 1/N)^x: P(lost after x) = 1 - (1 - 1/N)^x. Of an id that is "
    "lost a duplicate passes; no new message is ever taken for a duplicate. The sooner a duplicate comes, the more "
    "likely it is caught.",
    "Messages are those that pass on one partition: a duplicate that is caught overwrites nothing. All figures are of "
    "one partition. A slot of 24 bytes takes 30 with duplicates.policy: Topic (--routes duplicates), and 34 with "
    "conflicts.policy: Topic (--routes conflicts).",
    "A change of the number of slots, or of their width (by the routes), begins an empty table. The one before is "
    "asked until its ids are too old, or as many have come since as it has slots: so long, memory and volume must hold "
    "both.",
]


_VALUES: Final = {
    Routes.NONE: "an id of 16 B and its owner",
    Routes.DUPLICATES: "an id of 16 B, its owner and its time",
    Routes.CONFLICTS: "an id of 16 B, its owner, its time and a hash of its content",
}


def _volume(table: int, slot: int, *, snapshots: bool) -> tuple[float, str]:
    """Bytes for a table of slots of so many bytes, and their formula.

    A segment is written beside the one it replaces, however small the table, and a file system takes some for itself.
    """
    times, tables = (VOLUME_WITH_CHECKPOINT, 2) if snapshots else (VOLUME, 1)
    of_checkpoint = ", for a checkpoint, too" if snapshots else ""
    segment = SEGMENT_SLOTS * slot
    if table * times >= table * tables + 2 * segment:
        return table * times, f"table * {times:g}{of_checkpoint}"
    small = table * tables + 2 * segment
    return small, f"table * {tables} + 2 segments of {size_text(segment)}{of_checkpoint}"


def _slots(wanted: Wanted) -> int:
    if wanted.retain is not None and wanted.messages is None:
        raise ValueError(
            "--retain needs --messages: for how many messages is that share to be retained?"
        )
    target = wanted.messages is not None and wanted.retain is not None
    if [wanted.slots is not None, wanted.memory is not None, target].count(True) != 1:
        raise ValueError("say how large: by one of --slots, --memory, or --messages with --retain")
    if wanted.slots is not None:
        return wanted.slots
    if wanted.memory is not None:
        return slots_in(wanted.memory, wanted.routes.value_bytes)
    assert wanted.messages is not None  # noqa: S101 (a target has both)
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
        Row("memory", size_text(found.memory_bytes), f"table + {size_text(_BESIDE_BYTES)}"),
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
    """Fields of a manifest's spec."""
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
