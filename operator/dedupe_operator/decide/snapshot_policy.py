"""Decide which snapshots are due, run next or pruned, and judge their state.

The snapshot manager and runner call it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from dedupe_crds.spec.snapshots import Snapshots
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase, SnapshotStatus
from dedupe_kafka.errors import StreamError
from dedupe_operator.decide.verdict import Verdict, sentence, which

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MUCH_LONGER = 1.25  # windows of a size bound differ from day to day


class InvalidSchedule(StreamError):
    """A schedule that is well-formed but never due, such as the 31st of February."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A DedupeSnapshot as observed.

    `scheduled`: created by the schedule, not by a user. `partitions` are the requested ones, all of them if empty.
    `holds_copies`: its finalizer retains it until its copies are deleted. `prunable`: Argo CD or Flux may delete it.
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
    prunable: bool = False

    def entry(self, partition: int) -> PartitionSnapshot | None:
        """Return its entry of a partition, None if it has none."""
        matching = (each for each in self.status.partitions if each.partition == partition)
        return next(matching, None)

    def is_usable(self, partition: int) -> bool:
        """Return whether a partition can be restored from it, by its own status."""
        entry = self.entry(partition)
        if self.deleting or entry is None or entry.unreachable is not None:
            return False
        return entry.phase is SnapshotPhase.COMPLETED


def last_scheduled_time(schedule: str, now: datetime) -> datetime | None:
    """Return the last time of a cron schedule up to `now`, None without one.

    Raises InvalidSchedule.

    >>> last_scheduled_time("*/15 * * * *", datetime(2026, 1, 1, 10, 7, tzinfo=UTC)).isoformat()
    '2026-01-01T10:00:00+00:00'
    """
    try:
        # CronSim returns the times before its start, in whole minutes: begin with the following minute.
        following = now.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        return next(CronSim(_MACROS.get(schedule, schedule), following, reverse=True), None)
    except CronSimError as error:
        raise InvalidSchedule(f"spec.snapshots.schedule {schedule!r}: {error}") from error


def due_time(schedule: str, *, last: datetime | None, now: datetime) -> datetime | None:
    """Return the scheduled time of the snapshot that is due, None without one.

    `last` is the scheduled time that was processed last. If several were missed, only the newest is made up for.
    Raises InvalidSchedule.
    """
    due = last_scheduled_time(schedule, now)
    return due if due and last and due > last else None


def scheduled_name(stream: str, due: datetime) -> str:
    """Return the name of the snapshot for a scheduled time; the same in each call.

    >>> scheduled_name("orders", datetime(2026, 1, 1, 10, 15, tzinfo=UTC))
    'orders-20260101-1015'
    """
    return f"{stream}-{due.astimezone(UTC):%Y%m%d-%H%M}"


def next_snapshot(snapshots: Sequence[Snapshot]) -> Snapshot | None:
    """Return the snapshot to continue: the running one, else the oldest pending one."""
    unfinished = [
        each for each in snapshots if not each.deleting and not each.status.phase.is_final
    ]
    running = [each for each in unfinished if each.status.phase is SnapshotPhase.RUNNING]
    return min(running or unfinished, key=lambda each: (each.created, each.name), default=None)


def to_prune(snapshots: Sequence[Snapshot], wanted: Snapshots, now: datetime) -> list[Snapshot]:
    """Return the scheduled snapshots to delete, by `keep` and `keepFor`.

    A snapshot with a partition's newest usable copy always stays, and so does one whose copy has a much longer window:
    the newest may be of a store that was rebuilt from less. Snapshots that users created are never pruned.
    """
    final = [each for each in snapshots if each.status.phase.is_final and not each.deleting]
    newest = sorted(final, key=_completed, reverse=True)
    copied = {partition for each in newest for partition in _copied(each)}
    needed = {name for partition in copied for name in _needed(newest, partition)}
    surplus: list[Snapshot] = []
    for phase in (SnapshotPhase.COMPLETED, SnapshotPhase.FAILED):
        ours = [each for each in newest if each.scheduled and each.status.phase is phase]
        surplus += ours[wanted.keep :]
        if wanted.keep_for is not None:
            surplus += [
                each for each in ours[: wanted.keep] if now - _completed(each) > wanted.keep_for
            ]
    return [each for each in surplus if each.name not in needed]


def newest_usable(snapshots: Sequence[Snapshot], partition: int) -> Snapshot | None:
    """Return the newest snapshot that a partition can be restored from."""
    usable = [each for each in snapshots if each.is_usable(partition)]
    return max(usable, key=lambda each: _entry_completed(each, partition), default=None)


def judge(
    snapshots: Sequence[Snapshot], wanted: Snapshots, now: datetime, partitions: Collection[int]
) -> Verdict:
    """Judge whether each partition has snapshots as the spec wants them."""
    overdue_since = None
    if wanted.schedule:
        try:
            overdue_since = last_scheduled_time(wanted.schedule, now - wanted.deadline)
        except InvalidSchedule as error:
            return Verdict(
                "SnapshotsHealthy", holds=False, reason="InvalidSchedule", message=f"{error}."
            )
    if failed := _last_failed(snapshots, partitions):
        message = f"Snapshot {failed.name} failed: {failed.status.message}"
        return Verdict(
            "SnapshotsHealthy", holds=False, reason="LastSnapshotFailed", message=message
        )
    newest = {each: newest_usable(snapshots, each) for each in partitions}
    copied = {each: found for each, found in newest.items() if found}
    missing = sorted(newest.keys() - copied.keys())
    if not copied or missing:
        return judge_copies(snapshots) or _incomplete(missing if copied else [])
    return _overdue(copied, overdue_since) or judge_copies(snapshots) or _up_to_date(copied)


def judge_copies(snapshots: Sequence[Snapshot]) -> Verdict | None:
    """Judge copies that can't be deleted or read where they lie, if there are any."""
    unreachable = [
        (not each.deleting, f"partition {entry.partition} in {each.name}", entry.unreachable)
        for each in snapshots
        for entry in each.status.partitions
        if entry.unreachable
    ]
    if not unreachable:
        return None
    stays, copy, why = min(unreachable)
    reason, what = ("CopiesNotReadable", "read") if stays else ("CopiesNotDeleted", "deleted")
    more = f"{len(unreachable)} copies can't be reached; " if len(unreachable) > 1 else ""
    message = f"{more}the copy of {copy} can't be {what} where it lies: {why}"
    return Verdict("SnapshotsHealthy", holds=False, reason=reason, message=sentence(message))


def _incomplete(missing: Sequence[int]) -> Verdict:
    """Return that no snapshot, or none of these partitions, is complete."""
    of = f"of {which(missing)} " if missing else ""
    message = f"No snapshot {of}is complete yet."
    return Verdict("SnapshotsHealthy", holds=None, reason="NoSnapshotYet", message=message)


def _overdue(newest: Mapping[int, Snapshot], since: datetime | None) -> Verdict | None:
    """Judge whether the oldest of the partitions' newest copies is too old."""
    oldest, copy = min(newest.items(), key=lambda each: _began(each[1]))
    if since is None or _began(copy) >= since:
        return None
    message = (
        f"The newest complete snapshot of partition {oldest} is {copy.name}; the one of "
        f"{since:%Y-%m-%d %H:%M} UTC is overdue: check the newer DedupeSnapshots of the stream."
    )
    return Verdict("SnapshotsHealthy", holds=False, reason="SnapshotOverdue", message=message)


def _up_to_date(newest: Mapping[int, Snapshot]) -> Verdict:
    copy = min(newest.values(), key=_began)
    message = f"The newest complete snapshot of each partition is {copy.name} or newer."
    return Verdict("SnapshotsHealthy", holds=True, reason="UpToDate", message=message)


def _last_failed(snapshots: Sequence[Snapshot], partitions: Collection[int]) -> Snapshot | None:
    """Return the last failed snapshot, unless newer copies make up for it."""
    failed = [
        each
        for each in snapshots
        if each.status.phase is SnapshotPhase.FAILED and not each.deleting
    ]
    last = max(failed, key=_completed, default=None)
    if last is None:
        return None
    lost = {each.partition for each in last.status.partitions if each.phase is SnapshotPhase.FAILED}
    for partition in lost or partitions:
        newest = newest_usable([each for each in snapshots if each is not last], partition)
        if newest is None or _entry_completed(newest, partition) <= _completed(last):
            return last
    return None


def _began(snapshot: Snapshot) -> datetime:
    return snapshot.status.started or snapshot.created


def _copied(snapshot: Snapshot) -> list[int]:
    return [entry.partition for entry in snapshot.status.partitions]


def _needed(snapshots: Sequence[Snapshot], partition: int) -> set[str]:
    """Return the snapshots with a partition's newest copy, and with that of most ids."""
    newest = newest_usable(snapshots, partition)
    if newest is None:
        return set()
    usable = [each for each in snapshots if each.is_usable(partition)]
    # Of copies of equal length the newest one.
    longest = max(usable, key=lambda each: (_window(each, partition), _completed(each)))
    is_longer = _window(longest, partition) > _MUCH_LONGER * _window(newest, partition)
    return {newest.name, longest.name} if is_longer else {newest.name}


def _window(snapshot: Snapshot, partition: int) -> timedelta:
    entry = snapshot.entry(partition)
    return (entry.window if entry else None) or timedelta()


def _completed(snapshot: Snapshot) -> datetime:
    return snapshot.status.completed or snapshot.created


def _entry_completed(snapshot: Snapshot, partition: int) -> datetime:
    entry = snapshot.entry(partition)
    return (entry.completed if entry else None) or snapshot.created
