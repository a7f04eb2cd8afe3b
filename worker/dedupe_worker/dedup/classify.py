"""Classify each record of a batch: new, duplicate, redelivered, conflict or late.

The loop calls `Classifier.identify` and then `Classifier.classify`, which looks up the ids;
`make_verdict` decides.

Invariants:
  - A verdict is built in one place, `make_verdict`, from all facts, and never changed.
  - A late record that is routed away is not added to the window: an id is in the window only if its record is in the
    output.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from confluent_kafka import Message

from dedupe_crds.spec.topics import Delivery, Mode
from dedupe_ids.batch import Header, Mask, Rows
from dedupe_ids.extract import ID_BYTES, Extractor
from dedupe_ids.origin import strip_origins
from dedupe_worker.dedup.policy import Policy, late_before
from dedupe_worker.dedup.records import arrays_of
from dedupe_worker.dedup.uncommitted_output import UncommittedIds
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.producer import Routed
from dedupe_worker.origins import Origins
from dedupe_worker.values import (
    OFFSET_BITS,
    OWNER_BYTES,
    Offsets,
    Times,
    Values,
    came_after,
    contents_differ,
    decode_owner,
    owners_of,
    timestamp_of,
)

ORIGINAL_HEADER: Final = "dedupe-original"
"""Partition and offset of the record that this one repeats or contradicts: `3:1207`, or `unknown`.

Behind routers its topic comes first: `orders:3:1207`."""
AGE_HEADER: Final = "dedupe-age-ms"
"""This record's timestamp minus the original record's, in milliseconds; absent if the original's is not stored."""
POSITION_HEADER: Final = "dedupe-position"
"""Partition and offset of this record; behind routers its topic comes first."""
LATE_HEADER: Final = "dedupe-late"
"""The bound that made this record late, Unix milliseconds: its timestamp is before it. Ids are remembered only of
records from this time on, or `late.maxAge` sets it."""


@dataclass(frozen=True, slots=True)
class Identified:
    """A batch of n records of which m have an id.

    `rows` (m,) are the positions of these m, `packed` (16 m bytes) their ids, `values` (m,) what to store for them.
    `offsets` (n,) are of the input, `times` (n,) in Unix milliseconds, `owners` (n,) numbers of 8 bytes.
    """

    rows: Rows
    packed: bytes
    values: Values
    offsets: Offsets
    times: Times
    owners: Offsets

    @property
    def newest_ms(self) -> int:
        """Return the newest timestamp."""
        return int(self.times.max(initial=0))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on a batch of n records.

    `passed` is a mask of shape (n,), the records for the output; `routed` are the records for the other topics. The
    counts are of records.
    """

    passed: Mask
    routed: list[Routed] = field(default_factory=list)
    duplicates: int = 0
    redelivered: int = 0
    conflicts: int = 0
    late: int = 0


def make_verdict(
    policy: Policy,
    records: Sequence[Message],
    rows: Rows,
    values: Values,
    repeats: dict[int, bytes],
    *,
    redelivered: Sequence[int] = (),
    late: Sequence[int] = (),
    bound: int = 0,
    origins: Origins | None = None,
) -> Verdict:
    """Decide on a batch, without I/O. Records without an id pass.

    `values` are those of `rows`, the records with an id; `origins` name their places if they are routed. The other
    facts name positions in `rows`, and no position has two of them:

      - `repeats`: the record has the id of an earlier one, with the value of that one
      - `redelivered`: the record's output is in the output topic already, uncommitted before a crash
      - `late`: the record's timestamp is before `bound`, and its id is not remembered

    A record is redelivered, too, if the owner of its id is the record itself. With transactions its output is in the
    output topic. Without them only the store shows that it was seen, so it passes again and cannot be lost.
    """
    passed = np.ones(len(records), np.bool_)
    if not (repeats or redelivered or late):
        return Verdict(passed)  # most batches, so it saves the work on empty arrays
    routed: list[Routed] = []
    repeating, enforced = np.fromiter(repeats, np.intp, len(repeats)), policy.mode is Mode.ENFORCE
    duplicates = conflicts = of_itself = 0
    for row, own, original in zip(
        rows[repeating].tolist(), values[repeating].tolist(), repeats.values(), strict=True
    ):
        if own[:OWNER_BYTES] == original[:OWNER_BYTES]:
            of_itself += 1
            passed[row] = policy.delivery is Delivery.AT_LEAST_ONCE
            continue
        duplicates += 1
        passed[row] = not enforced
        conflict = policy.conflicts_topic is not None and contents_differ(own, original)
        conflicts += conflict
        topic = policy.conflicts_topic if conflict else policy.duplicates_topic
        if enforced and topic:
            routed.append(Routed(topic, records[row], _repeat_headers(own, original, origins)))
    passed[rows[list(redelivered)]] = False
    if policy.routes_late and policy.late_topic is not None:
        away = list(late)
        passed[rows[away]] = False
        routed.extend(
            Routed(policy.late_topic, records[row], _late_headers(value, bound, origins))
            for row, value in zip(rows[away].tolist(), values[away].tolist(), strict=True)
        )
    return Verdict(
        passed,
        routed,
        duplicates=duplicates,
        redelivered=of_itself + len(redelivered),
        conflicts=conflicts,
        late=len(late),
    )


class Classifier:
    """Classify the batches of one partition.

    Ids that `classify` finds new are in the window's open transaction from then on. `on_read` gets each batch.
    `routed_from` is the repartition topic, if the records come from routers.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        partition: int,
        window: Window,
        extract: Extractor,
        uncommitted: UncommittedIds | None = None,
        on_read: Callable[[Sequence[Message]], None] = lambda _: None,
        routed_from: str | None = None,
    ) -> None:
        self._policy = policy
        self._partition = partition
        self._window = window
        self._extract = extract
        self._layout = policy.layout
        self._uncommitted = uncommitted or UncommittedIds()
        self._on_read = on_read
        self._routed_from = routed_from

    def identify(self, records: Sequence[Message]) -> Identified:
        """Take the ids of a batch, and the headers that routers have added."""
        self._on_read(records)
        headers = None if self._routed_from is None else strip_origins(records)
        ids, offsets, times = arrays_of(records, self._extract)
        owners = self._owners(headers, offsets)
        values = self._layout.encode(owners_of(owners[ids.rows]), records, ids.rows, times)
        return Identified(ids.rows, ids.packed, values, offsets, times, owners)

    def _owners(self, headers: Sequence[bytes | None] | None, offsets: Offsets) -> Offsets:
        """Return the owner of each record; of one through no router, its own place."""
        if headers is None or self._routed_from is None:
            return offsets | np.uint64(self._partition << OFFSET_BITS)
        own = self._routed_from, self._partition
        return self._window.store.origins.owners(headers, lambda _: own, offsets)

    @property
    def _names(self) -> Origins | None:
        return None if self._routed_from is None else self._window.store.origins

    def classify(self, records: Sequence[Message], batch: Identified, now_ms: int) -> Verdict:
        """Look up the ids of a batch and decide on each record.

        `now_ms` is the time, Unix milliseconds.
        """
        bound = late_before(self._policy, self._window.forgotten_ms, now_ms)
        times = batch.times[batch.rows]
        late = (times < bound) & (times > 0)  # the age of a record without a timestamp is not known
        any_late = bool(late.any())
        if self._policy.routes_late and any_late:
            repeats = self._admit_in_time(batch, late)
        else:
            repeats = self._window.admit(batch.packed, batch.values)
        if any_late:
            late[list(repeats)] = False  # a record whose id is remembered can be decided on
        redelivered = []
        if self._uncommitted:
            # A late record that is routed away has no output.
            rows = np.flatnonzero(~late) if self._policy.routes_late else np.arange(len(late))
            first_offset = int(batch.offsets[0])
            redelivered = self._uncommitted.take(batch.packed, rows.tolist(), repeats, first_offset)
            for at in redelivered:
                repeats.pop(at, None)
                late[at] = False
        return make_verdict(
            self._policy,
            records,
            batch.rows,
            batch.values,
            repeats,
            redelivered=redelivered,
            late=np.flatnonzero(late).tolist() if any_late else (),
            bound=bound,
            origins=self._names,
        )

    def _admit_in_time(self, batch: Identified, late: Mask) -> dict[int, bytes]:
        """Admit the records that are not late; return the repeats among all.

        A late record does not repeat a copy that follows it in the batch.
        """
        ids = np.frombuffer(batch.packed, np.dtype(f"V{ID_BYTES}"))
        in_time = np.flatnonzero(~late)
        admitted = self._window.admit(ids[in_time].tobytes(), batch.values[in_time])
        repeats = {int(in_time[at]): value for at, value in admitted.items()}
        behind = np.flatnonzero(late)
        known = self._window.find(ids[behind].tobytes())
        repeats.update(
            (int(behind[at]), value)
            for at, value in known.items()
            if not came_after(value, batch.values[behind[at]].tobytes())
        )
        return repeats


def _repeat_headers(own: bytes, original: bytes, origins: Origins | None) -> list[Header]:
    headers = [
        (ORIGINAL_HEADER, _position(original, origins)),
        (POSITION_HEADER, _position(own, origins)),
    ]
    time_ms, original_ms = timestamp_of(own), timestamp_of(original)
    if time_ms is not None and original_ms is not None:
        headers.append((AGE_HEADER, b"%d" % (time_ms - original_ms)))
    return headers


def _late_headers(value: bytes, bound: int, origins: Origins | None) -> list[Header]:
    return [(LATE_HEADER, b"%d" % bound), (POSITION_HEADER, _position(value, origins))]


def _position(value: bytes, origins: Origins | None) -> bytes:
    owner = decode_owner(value[:OWNER_BYTES])
    if owner is None:
        return b"unknown"
    number, offset = owner
    if origins is None:
        return b"%d:%d" % owner
    place = origins.place_of(number)
    return b"unknown" if place is None else f"{place[0]}:{place[1]}:{offset}".encode()
