"""When a snapshot is made, which is next, which go, and whether there are enough."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.spec.snapshots import SnapshotProvider, Snapshots
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase, SnapshotStatus
from dedupe_operator.decide.snapshot_policy import (
    InvalidSchedule,
    Snapshot,
    due_time,
    judge,
    last_scheduled_time,
    newest_usable,
    next_snapshot,
    to_prune,
)
from tests.unit.operator.objects import NOW

COMPLETED, FAILED = SnapshotPhase.COMPLETED, SnapshotPhase.FAILED
PENDING, RUNNING = SnapshotPhase.PENDING, SnapshotPhase.RUNNING


def wanted(**known: object) -> Snapshots:
    given: dict[str, Any] = {"provider": SnapshotProvider.CSI, "schedule": "0 * * * *", **known}
    return Snapshots(**given)


def snapshot(
    name: str,
    phase: SnapshotPhase = COMPLETED,
    *,
    hours: float = 1,
    copied: tuple[int, ...] = (0, 1),
    lost: tuple[int, ...] = (),
    **known: object,
) -> Snapshot:
    """A snapshot that was begun so many hours ago; `copied` partitions are complete if it is over, `lost` failed."""
    began = NOW - timedelta(hours=hours)
    entries = [
        PartitionSnapshot(
            partition=partition,
            phase=FAILED if partition in lost else COMPLETED if phase.is_final else phase,
            completed=began if phase.is_final else None,
        )
        for partition in (*copied, *lost)
    ]
    status = SnapshotStatus(
        phase=phase,
        started=began,
        completed=began if phase.is_final else None,
        message="no room" if phase is FAILED else None,
        partitions=entries,
    )
    given: dict[str, Any] = {
        "uid": f"uid-{name}",
        "stream": "orders",
        "created": began,
        "scheduled": True,
        "deleting": False,
        "holds_copies": False,
        "partitions": (),
        "status": status,
        **known,
    }
    return Snapshot(name=name, **given)


def pruned(*snapshots: Snapshot, **known: object) -> list[str]:
    return sorted(one.name for one in to_prune(snapshots, wanted(**known), NOW))


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        ("*/15 * * * *", "2026-11-01T12:00"),
        ("30 * * * *", "2026-11-01T11:30"),
        ("@daily", "2026-11-01T00:00"),
        ("@weekly", "2026-11-01T00:00"),
        ("0 0 1 1 *", "2026-01-01T00:00"),
    ],
)
def test_the_last_time_of_a_schedule_is_not_after_now(schedule: str, due: str) -> None:
    assert last_scheduled_time(schedule, NOW) == datetime.fromisoformat(f"{due}:00+00:00")


@pytest.mark.parametrize("schedule", ["99 * * * *", "0 0 31 2 *", "x y z a b"])
def test_a_schedule_that_names_no_time_is_told(schedule: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"spec\.snapshots\.schedule"):
        last_scheduled_time(schedule, NOW)


def test_after_downtime_one_is_due_however_many_were_missed() -> None:
    last = NOW - timedelta(days=3)
    due = due_time("*/15 * * * *", last=last, now=NOW)
    assert due == NOW
    assert due_time("*/15 * * * *", last=due, now=NOW + timedelta(minutes=14)) is None


def test_nothing_is_due_before_the_schedule_was_first_seen() -> None:
    assert due_time("* * * * *", last=None, now=NOW) is None


@given(st.integers(0, 10_000), st.integers(1, 500))
def test_each_time_is_due_once(minutes: int, step: int) -> None:
    now, last = NOW, NOW - timedelta(minutes=minutes)
    made = []
    for _ in range(50):
        now += timedelta(minutes=step)
        if due := due_time("*/7 * * * *", last=last, now=now):
            made.append(due)
            last = due
    assert made == sorted(set(made))
    assert all(one.astimezone(UTC).minute % 7 == 0 for one in made)


def test_the_one_that_runs_is_gone_on_with_then_the_oldest_that_waits() -> None:
    waiting, older = snapshot("b", PENDING, hours=1), snapshot("a", PENDING, hours=2)
    running = snapshot("c", RUNNING, hours=0.5)
    assert next_snapshot([waiting, older, running]) is running
    assert next_snapshot([waiting, older]) is older
    assert next_snapshot([snapshot("d"), snapshot("e", FAILED)]) is None
    assert next_snapshot([snapshot("f", RUNNING, deleting=True)]) is None


def test_the_newest_stay() -> None:
    made = [snapshot(f"s{hours}", hours=hours) for hours in (1, 2, 3, 4, 5)]
    assert pruned(*made, keep=3) == ["s4", "s5"]
    assert pruned(*made, keep=9) == []


def test_what_is_too_old_goes_but_never_the_newest_usable_one() -> None:
    made = [snapshot(f"s{hours}", hours=hours) for hours in (30, 40, 50)]
    assert pruned(*made, keep=9, keep_for=timedelta(hours=35)) == ["s40", "s50"]
    assert pruned(*made, keep=9, keep_for=timedelta(hours=1)) == ["s40", "s50"]


def test_what_users_made_is_theirs() -> None:
    by_hand = snapshot("by-hand", hours=9, scheduled=False)
    assert pruned(by_hand, snapshot("s1"), snapshot("s2", hours=2), keep=1) == ["s2"]


def test_a_partitions_newest_copy_stays_even_in_a_failed_snapshot() -> None:
    half = snapshot("half", FAILED, hours=2, copied=(0,), lost=(1,))
    whole = snapshot("whole", hours=5)
    failed = [snapshot(f"f{n}", FAILED, hours=n, copied=(), lost=(0, 1)) for n in (0.1, 0.2, 0.3)]
    assert pruned(half, whole, *failed, keep=2) == ["f0.3"]


def with_window(name: str, window: timedelta, *, hours: float) -> Snapshot:
    made = snapshot(name, hours=hours, copied=(0,))
    entries = [each.model_copy(update={"window": window}) for each in made.status.partitions]
    return replace(made, status=made.status.model_copy(update={"partitions": entries}))


def test_the_copy_with_the_full_window_stays_while_newer_ones_have_less() -> None:
    full = with_window("full", timedelta(days=28), hours=50)
    rebuilt = [with_window(f"s{n}", timedelta(hours=50 - n), hours=n) for n in (1, 2, 3, 4)]
    assert pruned(full, *rebuilt, keep=2) == ["s3", "s4"]
    again = with_window("again", timedelta(days=27), hours=0.5)
    assert pruned(full, again, *rebuilt, keep=1) == ["full", "s1", "s2", "s3", "s4"]


def test_the_one_that_runs_is_not_pruned() -> None:
    assert pruned(snapshot("r", RUNNING, hours=99), snapshot("s1"), keep=1) == []


def test_a_partition_is_restored_from_its_newest_copy() -> None:
    half = snapshot("half", FAILED, hours=1, copied=(0,), lost=(1,))
    whole = snapshot("whole", hours=5)
    gone = snapshot("gone", hours=0.1, deleting=True)
    assert newest_usable([half, whole, gone], 0) is half
    assert newest_usable([half, whole, gone], 1) is whole
    assert newest_usable([half], 1) is None


@pytest.mark.parametrize(
    ("made", "known", "holds", "reason"),
    [
        ([], {}, None, "NoSnapshotYet"),
        ([snapshot("s", RUNNING)], {}, None, "NoSnapshotYet"),
        ([snapshot("s", hours=0.5)], {}, True, "UpToDate"),
        ([snapshot("s", hours=9)], {"schedule": None}, True, "UpToDate"),
        ([snapshot("s", hours=3)], {}, False, "SnapshotOverdue"),
        ([snapshot("s", hours=3)], {"deadline": timedelta(hours=5)}, True, "UpToDate"),
        ([snapshot("f", FAILED), snapshot("s", hours=2)], {}, False, "LastSnapshotFailed"),
        ([snapshot("f", FAILED, hours=2), snapshot("s", hours=0.5)], {}, True, "UpToDate"),
        (
            [snapshot("f", FAILED), snapshot("a", hours=0.5, copied=(0,))],
            {},
            False,
            "LastSnapshotFailed",
        ),
        (
            [snapshot("s", hours=3), snapshot("a", hours=0.5, copied=(0,))],
            {},
            False,
            "SnapshotOverdue",
        ),
        ([snapshot("a", hours=0.5, copied=(0,))], {}, None, "NoSnapshotYet"),
        ([snapshot("s")], {"schedule": "99 * * * *"}, False, "InvalidSchedule"),
    ],
)
def test_the_verdict_has_its_reason(
    made: list[Snapshot], known: dict[str, object], holds: bool | None, reason: str
) -> None:
    verdict = judge(made, wanted(**known), NOW, {0, 1})
    assert (verdict.holds, verdict.reason) == (holds, reason)
