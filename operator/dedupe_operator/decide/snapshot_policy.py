"""When a snapshot is made, which one is next, which are given up, and whether there are enough."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from dedupe_crds.spec.store import Snapshots
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase, SnapshotStatus

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class InvalidSchedule(ValueError):
    """A schedule of the right form that names no time, such as the 31st of February."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A DedupeSnapshot as it stands. `scheduled`: made by the schedule, not by a user.

    `partitions` are those asked for, all of them if empty; `holds_copies`: it stays until its copies are deleted.
    """

    name: str
    uid: str
    stream: str
    created: datetime
    scheduled: bool
    deleting: bool
    holds_copies: bool
    partitions: tuple[int, ...]
    status: SnapshotStatus

    def entry(self, partition: int) -> PartitionSnapshot | None:
        """What it has of a partition."""
        return next((one for one in self.status.partitions if one.partition == partition), None)

    def is_usable(self, partition: int) -> bool:
        """Whether a partition can be restored from it, as far as its own status tells."""
        entry = self.entry(partition)
        return not self.deleting and entry is not None and entry.phase is SnapshotPhase.COMPLETED


def last_due(schedule: str, now: datetime) -> datetime | None:
    """The last time of a cron schedule that is not after `now`; None if there never was one.

    Raises InvalidSchedule.

    >>> last_due("*/15 * * * *", datetime(2026, 1, 1, 10, 7, tzinfo=UTC)).isoformat()
    '2026-01-01T10:00:00+00:00'
    """
    try:
        # It tells the times before its start, in whole minutes: begin with the minute that follows.
        following = now.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        return next(CronSim(_MACROS.get(schedule, schedule), following, reverse=True), None)
    except CronSimError as error:
        raise InvalidSchedule(f"spec.snapshots.schedule {schedule!r}: {error}") from error


def is_due(schedule: str, *, last: datetime | None, now: datetime) -> datetime | None:
    """The time of the schedule a snapshot is to be made for now.

    `last` is the time that was seen to last. However many were missed, the newest is made up for, and no other.
    Raises InvalidSchedule.
    """
    due = last_due(schedule, now)
    return due if due and last and due > last else None


def scheduled_name(stream: str, due: datetime) -> str:
    """Name of the snapshot for a time of the schedule: the same, however often it is asked for.

    >>> scheduled_name("orders", datetime(2026, 1, 1, 10, 15, tzinfo=UTC))
    'orders-20260101-1015'
    """
    return f"{stream}-{due.astimezone(UTC):%Y%m%d-%H%M}"


def next_up(snapshots: Sequence[Snapshot]) -> Snapshot | None:
    """The snapshot to go on with: the one that runs, else the oldest that waits."""
    open_ones = [one for one in snapshots if not one.deleting and not one.status.phase.is_final]
    running = [one for one in open_ones if one.status.phase is SnapshotPhase.RUNNING]
    return min(running or open_ones, key=lambda one: (one.created, one.name), default=None)


def to_prune(snapshots: Sequence[Snapshot], wanted: Snapshots, now: datetime) -> list[Snapshot]:
    """The snapshots to delete: of those the schedule made, what `keep` and `keepFor` leave no room for.

    One that holds a partition's newest usable copy always stays. What users made is theirs.
    """
    final = [one for one in snapshots if one.status.phase.is_final and not one.deleting]
    newest = sorted(final, key=_completed, reverse=True)
    needed = {_newest_of(newest, partition) for one in newest for partition in _copied(one)}
    surplus: list[Snapshot] = []
    for phase in (SnapshotPhase.COMPLETED, SnapshotPhase.FAILED):
        ours = [one for one in newest if one.scheduled and one.status.phase is phase]
        surplus += ours[wanted.keep :]
        if wanted.keep_for is not None:
            surplus += [
                one for one in ours[: wanted.keep] if now - _completed(one) > wanted.keep_for
            ]
    return [one for one in surplus if one.name not in needed]


def newest_usable(snapshots: Sequence[Snapshot], partition: int) -> Snapshot | None:
    """The newest snapshot that a partition can be restored from."""
    usable = [one for one in snapshots if one.is_usable(partition)]
    return max(usable, key=lambda one: _entry_completed(one, partition), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the snapshots are as the spec wants them: what the condition SnapshotsHealthy says."""

    holds: bool | None
    reason: str
    message: str


def judge(snapshots: Sequence[Snapshot], wanted: Snapshots, now: datetime) -> Verdict:
    """Judge a stream's snapshots."""
    overdue_since = None
    if wanted.schedule:
        try:
            overdue_since = last_due(wanted.schedule, now - wanted.deadline)
        except InvalidSchedule as error:
            return Verdict(holds=False, reason="InvalidSchedule", message=f"{error}.")
    final = [one for one in snapshots if one.status.phase.is_final and not one.deleting]
    completed = [one for one in final if one.status.phase is SnapshotPhase.COMPLETED]
    last = max(final, key=_completed, default=None)
    if last is not None and last.status.phase is SnapshotPhase.FAILED:
        message = f"Snapshot {last.name} failed: {last.status.message}"
        return Verdict(holds=False, reason="LastSnapshotFailed", message=message)
    newest = max(completed, key=_completed, default=None)
    if newest is None:
        return Verdict(holds=None, reason="NoSnapshotYet", message="No snapshot is complete yet.")
    if overdue_since and (newest.status.started or newest.created) < overdue_since:
        message = (
            f"The newest complete snapshot is {newest.name}, and the one of {overdue_since:%Y-%m-%d %H:%M} UTC "
            "was to be complete by now; look at the newer DedupeSnapshots of the stream."
        )
        return Verdict(holds=False, reason="SnapshotOverdue", message=message)
    message = f"The newest complete snapshot is {newest.name}."
    return Verdict(holds=True, reason="UpToDate", message=message)


def _copied(snapshot: Snapshot) -> list[int]:
    return [one.partition for one in snapshot.status.partitions]


def _newest_of(snapshots: Sequence[Snapshot], partition: int) -> str | None:
    newest = newest_usable(snapshots, partition)
    return newest.name if newest else None


def _completed(snapshot: Snapshot) -> datetime:
    return snapshot.status.completed or snapshot.created


def _entry_completed(snapshot: Snapshot, partition: int) -> datetime:
    entry = snapshot.entry(partition)
    return (entry.completed if entry else None) or snapshot.created
