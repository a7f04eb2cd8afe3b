"""A stream's policy on duplicates, conflicts and late records, from its manifest.

`classify` decides with it, and its `layout` describes the values that the store must hold for that. No I/O.
"""

from dataclasses import dataclass
from datetime import timedelta

from dedupe_crds.spec.stream import Spec
from dedupe_crds.spec.topics import ConflictPolicy, Delivery, DuplicatePolicy, LatePolicy, Mode
from dedupe_worker.values import ValueLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy of one stream; a topic is None where nothing is routed to it."""

    mode: Mode = Mode.ENFORCE
    delivery: Delivery = Delivery.EXACTLY_ONCE
    duplicates_topic: str | None = None
    conflicts_topic: str | None = None
    late_topic: str | None = None
    late_after: timedelta | None = None

    @property
    def routes_late(self) -> bool:
        """Return whether late records are kept out of the output."""
        return self.late_topic is not None and self.mode is Mode.ENFORCE

    @property
    def layout(self) -> ValueLayout:
        """Return the layout of the values that the store must hold for this."""
        routes = bool(self.duplicates_topic or self.conflicts_topic)
        return ValueLayout(timed=routes, hashed=self.conflicts_topic is not None)


def policy_of(spec: Spec) -> Policy:
    """Return the policy of a manifest."""
    duplicates, conflicts, late = spec.duplicates, spec.conflicts, spec.late
    return Policy(
        mode=spec.mode,
        delivery=spec.delivery,
        duplicates_topic=duplicates.topic if duplicates.policy is DuplicatePolicy.TOPIC else None,
        conflicts_topic=conflicts.topic if conflicts.policy is ConflictPolicy.TOPIC else None,
        late_topic=late.topic if late.policy is LatePolicy.TOPIC else None,
        late_after=late.max_age,
    )


def late_before(policy: Policy, forgotten_ms: int, now_ms: int) -> int:
    """Return the timestamp before which a record is late, Unix milliseconds.

    `forgotten_ms` is the newest timestamp of a record whose id the store has forgotten.
    """
    bound = forgotten_ms
    if policy.late_after is not None:
        bound = max(bound, now_ms - policy.late_after // timedelta(milliseconds=1))
    return bound
