"""What becomes of each record of a batch: passed on, dropped, or routed to a topic beside the output.

Decisions only, no I/O. `loop.py` asks with what the window has found, and does as it is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from dedupe_crds.spec.stream import Spec
from dedupe_crds.spec.topics import ConflictPolicy, Delivery, DuplicatePolicy, LatePolicy, Mode
from dedupe_worker.values import (
    OWNER_BYTES,
    Owners,
    ValueLayout,
    contradict,
    decode_owner,
    timestamp_of,
)

ORIGINAL_HEADER: Final = "dedupe-original"
"""Input partition and offset of the record that this one repeats or contradicts: `3:1207`, or `unknown`."""
AGE_HEADER: Final = "dedupe-age-ms"
"""This record's timestamp less that record's, in milliseconds; absent if that was not kept."""
POSITION_HEADER: Final = "dedupe-position"
"""Input partition and offset of this record."""
LATE_HEADER: Final = "dedupe-late"
"""Why nothing can be said of this record: its timestamp is before this one, Unix milliseconds, from which on ids are
remembered, or `late.maxAge` bounds it."""

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]
Header = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Routed:
    """A record for a topic beside the output, as it is but for `headers`, which are added to its own."""

    topic: str
    record: Message
    headers: list[Header]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a stream wants done; topics are None for what is not routed."""

    mode: Mode = Mode.ENFORCE
    delivery: Delivery = Delivery.EXACTLY_ONCE
    duplicates_topic: str | None = None
    conflicts_topic: str | None = None
    late_topic: str | None = None
    late_after: timedelta | None = None

    @property
    def routes_late(self) -> bool:
        """Whether what is late is kept out of the output."""
        return self.late_topic is not None and self.mode is Mode.ENFORCE

    @property
    def layout(self) -> ValueLayout:
        """What must be remembered for it."""
        routes = bool(self.duplicates_topic or self.conflicts_topic)
        return ValueLayout(timed=routes, hashed=self.conflicts_topic is not None)


def policy_of(spec: Spec) -> Policy:
    """A manifest's."""
    duplicates, conflicts, late = spec.duplicates, spec.conflicts, spec.late
    return Policy(
        mode=spec.mode,
        delivery=spec.delivery,
        duplicates_topic=duplicates.topic if duplicates.policy is DuplicatePolicy.TOPIC else None,
        conflicts_topic=conflicts.topic if conflicts.policy is ConflictPolicy.TOPIC else None,
        late_topic=late.topic if late.policy is LatePolicy.TOPIC else None,
        late_after=late.max_age,
    )


@dataclass(slots=True)
class Verdict:
    """What becomes of a batch of n records. `passed` is a mask of shape (n,)."""

    passed: Mask
    routed: list[Routed] = field(default_factory=list)
    duplicates: int = 0
    redelivered: int = 0
    conflicts: int = 0
    late: int = 0


def late_before(policy: Policy, forgotten_ms: int, now_ms: int) -> int:
    """The timestamp before which a record is late; `forgotten_ms` is the newest of which ids are forgotten."""
    bound = forgotten_ms
    if policy.late_after is not None:
        bound = max(bound, now_ms - policy.late_after // timedelta(milliseconds=1))
    return bound


def judge(
    policy: Policy,
    records: Sequence[Message],
    rows: Rows,
    values: Owners,
    repeats: dict[int, bytes],
) -> Verdict:
    """Decide on a batch: `values` are those of `rows`, the records with an id, and `repeats` say which of these repeat
    an id, with the value of the record each repeats. Records without an id pass.

    A record that repeats itself was redelivered. With transactions its output is there already; without them only the
    store says so, and it passes again rather than be lost.
    """
    verdict = Verdict(np.ones(len(records), np.bool_))
    if not repeats:
        return verdict
    repeating = rows[np.fromiter(repeats, np.intp, len(repeats))].tolist()
    owns = values[np.fromiter(repeats, np.intp, len(repeats))].tolist()
    enforced = policy.mode is Mode.ENFORCE
    routed = enforced and bool(policy.duplicates_topic or policy.conflicts_topic)
    for row, own, original in zip(repeating, owns, repeats.values(), strict=True):
        if own[:OWNER_BYTES] == original[:OWNER_BYTES]:
            verdict.redelivered += 1
            verdict.passed[row] = policy.delivery is Delivery.AT_LEAST_ONCE
            continue
        verdict.duplicates += 1
        verdict.passed[row] = not enforced
        conflict = policy.conflicts_topic is not None and contradict(own, original)
        verdict.conflicts += conflict
        topic = policy.conflicts_topic if conflict else policy.duplicates_topic
        if routed and topic:
            verdict.routed.append(Routed(topic, records[row], _headers(own, original)))
    return verdict


def judge_late(
    policy: Policy, records: Sequence[Message], late: dict[int, bytes], bound: int, verdict: Verdict
) -> None:
    """Add the rows that are `late`, with their values, to a verdict: their timestamps are before `bound`, and their ids
    are not remembered."""
    verdict.late += len(late)
    if not policy.routes_late or policy.late_topic is None:
        return
    for row, value in late.items():
        verdict.passed[row] = False
        headers = [
            (LATE_HEADER, b"%d" % bound),
            (POSITION_HEADER, _position(value)),
        ]
        verdict.routed.append(Routed(policy.late_topic, records[row], headers))


def _headers(own: bytes, original: bytes) -> list[Header]:
    headers = [(ORIGINAL_HEADER, _position(original)), (POSITION_HEADER, _position(own))]
    came, came_before = timestamp_of(own), timestamp_of(original)
    if came is not None and came_before is not None:
        headers.append((AGE_HEADER, b"%d" % (came - came_before)))
    return headers


def _position(value: bytes) -> bytes:
    at = decode_owner(value[:OWNER_BYTES])
    return b"unknown" if at is None else b"%d:%d" % at
