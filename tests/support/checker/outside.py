"""Outside events of a stream, and the statuses of its workers: input of the judge.

All times are milliseconds of one clock that never steps and that everything in a history shares. The simulation has
such a clock; it is neither the wall clock nor the timestamps of the records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class EventKind(StrEnum):
    """The kinds of outside events. Unless said otherwise, an event is about one partition."""

    WORKER_STARTED = "worker started"
    """A worker's process began, with its volume; its first session may begin later."""
    SESSION_STARTED = "session started"
    """A worker began a session, before its first call to Kafka."""
    WORKER_ENDED = "worker ended"
    """A worker's process ended, by itself with `exit_code`, or killed."""
    RETENTION = "retention"
    """A topic deleted its records before `offset`. `topic` says which."""
    TAIL_LOST = "tail lost"
    """Brokers lost the newest records of a topic, and may get others at their offsets. `topic` says which."""
    DAMAGED = "damaged"
    """A batch is damaged on the disk of its broker from now on, for a while: for all that read `topic`."""
    VOLUME_LOST = "volume lost"
    """The state directory is empty from now on."""
    STORE_RESTORED = "store restored"
    """The state directory is as it was at `as_of_ms` (a snapshot or a copy of the volume)."""
    STORE_DAMAGED = "store damaged"
    """Files of the store are damaged."""
    UNSYNCED_LOST = "unsynced lost"
    """Power loss: what was not synced to the volume is gone."""
    OFFSETS_LOST = "offsets lost"
    """The group's committed offsets of the partition are deleted, or set back."""
    FROZEN = "frozen"
    """A worker's process stood still for a while from now on."""
    BROKER_AWAY = "broker away"
    """A partition, or the coordinators if `partition` is None, had no leader for a while from now on."""
    CLOCK_STEPPED = "clock stepped"
    """The wall clock of the partition's worker, or of all if `partition` is None, stepped by `step_ms`."""
    FORGOTTEN = "forgotten"
    """An administrator let the worker forget `ids`."""
    BOUNDS_CHANGED = "bounds changed"
    """The window has the bounds `bounds` from now on."""


class TopicRole(StrEnum):
    """The topics of a stream."""

    INPUT = "input"
    OUTPUT = "output"
    DUPLICATES = "duplicates"
    CONFLICTS = "conflicts"
    LATE = "late"
    OWNERS = "owners"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowBounds:
    """Bounds of what the window must remember.

    An id must be known for `keep_ms` after its record was committed, unless `keep_ids` ids or more came since the begin
    of its transaction. `keep_ids` None: its size does not bound the window. The ids of the open transaction, and the
    first `all_ids` of a partition, are known whatever their number. Time counts only while the worker had read all
    input that was there `backlog_grace_ms` ago.
    """

    keep_ms: int
    backlog_grace_ms: int = 75_000
    generation_ms: int | None = None
    """The time after which a generation is full; None if that is not known."""
    keep_ids: int | None = None
    learnt_at_once: int = 0
    """Ids that a start may take into the store together with those of a transaction: `keep_ids` is less by these."""
    all_ids: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideEvent:
    """One event; only the fields that its kind names have a meaning."""

    time_ms: int
    kind: EventKind
    partition: int | None = None
    """None: every partition."""
    process: str = ""
    """The worker's process, for WORKER_STARTED, SESSION_STARTED, WORKER_ENDED, FORGOTTEN."""
    exit_code: int | None = None
    """For WORKER_ENDED; None: the process was killed."""
    session: str = ""
    """A name of the session, unique in a history, for SESSION_STARTED."""
    topic: TopicRole | None = None
    topic_id: str = ""
    """Which incarnation of the topic, for RETENTION and TAIL_LOST."""
    offset: int = 0
    as_of_ms: int = 0
    step_ms: int = 0
    ids: frozenset[bytes] = frozenset()
    bounds: WindowBounds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSnapshot:
    """A worker's status at a moment, from /status, /readyz and /metrics.

    A history has one after each session start (once it is running), at each end of a session, just before each kill,
    and at its end: counters of a process begin at 0, so what was counted after its last snapshot is not known.
    """

    time_ms: int
    partition: int
    process: str
    phase: str
    ready: bool
    reason: str | None = None
    """Why it is not ready."""
    degraded: Mapping[str, int] = field(default_factory=dict)
    """The counts of the degraded reasons that are listed."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """dedupe_errors_total by reason."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """dedupe_records_* by name: consumed, produced, duplicates, redelivered, without_id, conflicts, late."""
    expired_offsets: int = 0
    """dedupe_input_offsets_expired_total."""
    catch_up: str | None = None
    """reconcile.reason of the last start: Tail, NewStore, TailRetainedAway…"""
    truncated: bool = False
    """window.truncated"""
    healthy: bool = True
    window_seconds: float = 0.0
    generations: int = 0
