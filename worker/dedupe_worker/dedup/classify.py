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
from typing import Self

import numpy as np
from confluent_kafka import Message

from dedupe_crds.spec.topics import Delivery, Mode
from dedupe_ids.batch import Mask, Rows
from dedupe_ids.extract import ID_BYTES, Extractor
from dedupe_ids.origin import BatchOrigins, strip_origins
from dedupe_worker.dedup.policy import Policy, late_before
from dedupe_worker.dedup.records import arrays_of
from dedupe_worker.dedup.side_headers import late_headers, repeat_headers
from dedupe_worker.dedup.uncommitted_output import UncommittedIds
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.side_records import Routed
from dedupe_worker.origins import Origins
from dedupe_worker.values import (
    OFFSET_BITS,
    Decoded,
    Offsets,
    Times,
    Values,
    came_after,
    contents_differ,
    owners_of,
)


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
    found = _Repeats.of(policy, rows, values, repeats)
    seen_again = policy.delivery is Delivery.AT_LEAST_ONCE
    passed[found.rows] = np.where(found.of_itself, seen_again, policy.mode is not Mode.ENFORCE)
    passed[rows[list(redelivered)]] = False
    routed = found.routed(policy, records, origins) if policy.mode is Mode.ENFORCE else []
    if policy.routes_late and policy.late_topic is not None:
        away = rows[list(late)].tolist()
        passed[away] = False
        headers = late_headers(Decoded.of(values[list(late)].tolist()), bound, origins)
        routed += [
            Routed(policy.late_topic, records[row], added)
            for row, added in zip(away, headers, strict=True)
        ]
    of_itself = int(np.count_nonzero(found.of_itself))
    return Verdict(
        passed,
        routed,
        duplicates=len(repeats) - of_itself,
        redelivered=of_itself + len(redelivered),
        conflicts=int(np.count_nonzero(found.conflicting)),
        late=len(late),
    )


@dataclass(frozen=True, slots=True)
class _Repeats:
    """The m records of a batch that repeat an id; each field has the shape (m,).

    It is decided on all of them at once, because a step of Python for each takes as long as to pass a record on.
    """

    rows: Rows
    own: Decoded
    original: Decoded
    of_itself: Mask
    conflicting: Mask

    @classmethod
    def of(cls, policy: Policy, rows: Rows, values: Values, repeats: dict[int, bytes]) -> Self:
        at = np.fromiter(repeats, np.intp, len(repeats))
        pairs = values[at].tolist(), list(repeats.values())
        conflicting = [
            policy.conflicts_topic is not None and contents_differ(own, original)
            for own, original in zip(*pairs, strict=True)
        ]
        own, original = map(Decoded.of, pairs)
        of_itself = own.owners == original.owners
        return cls(rows[at], own, original, of_itself, ~of_itself & np.array(conflicting, np.bool_))

    def routed(
        self, policy: Policy, records: Sequence[Message], origins: Origins | None
    ) -> list[Routed]:
        """Return those that have a topic, in order."""
        topics = policy.duplicates_topic or "", policy.conflicts_topic or ""
        away = np.flatnonzero(~self.of_itself & (self.conflicting | bool(topics[False])))
        headers = repeat_headers(self.own.take(away), self.original.take(away), origins)
        conflicting, rows = self.conflicting[away].tolist(), self.rows[away].tolist()
        return [
            Routed(topics[conflict], records[row], added)
            for conflict, row, added in zip(conflicting, rows, headers, strict=True)
        ]


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
        came_from = None if self._routed_from is None else strip_origins(records)
        ids, offsets, times = arrays_of(records, self._extract)
        owners = self._owners(came_from, offsets)
        values = self._layout.encode(owners_of(owners[ids.rows]), records, ids.rows, times)
        return Identified(ids.rows, ids.packed, values, offsets, times, owners)

    def _owners(self, came_from: BatchOrigins | None, offsets: Offsets) -> Offsets:
        """Return the owner of each record; of one through no router, its own place."""
        if came_from is None or self._routed_from is None:
            return offsets | np.uint64(self._partition << OFFSET_BITS)
        own = self._routed_from, self._partition
        return self._window.store.origins.owners(came_from, own, offsets)

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
