"""Snapshots that a schedule makes: as many are kept, and as long, as the spec says, and the newest always."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.support.copied import copied_stream
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.scene import Scene
from tests.e2e.support.snapshots import Snapshots, foreign_copy, uid_of
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.patience import pace
from tests.support.traffic.traffic import retries

COUNT = 600
EVERY_MINUTE = "* * * * *"


def filled(place: Scene, title: str, **kept: object) -> ClusterStream:
    """Return a stream with records and a snapshot every minute, of which `kept` are kept."""
    stream = copied_stream(place, title, snapshots={"schedule": EVERY_MINUTE, **kept})
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED, COUNT))
    stream.wait_until_passed()
    return stream


@pytest.mark.matrix  # tests/unit/operator/controller/test_reconcile_snapshots.py
def test_keep_leaves_the_newest_of_the_schedule_and_none_that_is_not_ours_goes(
    place: Scene,
) -> None:
    stream = filled(place, "counted", keep=1)
    snapshots = Snapshots(stream)
    snapshots.make(f"{stream.name}-by-hand")
    theirs = foreign_copy(stream, f"{stream.name}-theirs")
    seen: set[str] = set()

    def were_made(number: int) -> bool:
        seen.update(name for name in snapshots.names() if is_scheduled(stream, name))
        return len(seen) >= number

    stream.wait_until(lambda: were_made(1), "one was made")
    stream.wait_until(lambda: were_made(2), "another was made")
    stream.wait_until(
        lambda: len([name for name in snapshots.names() if is_scheduled(stream, name)]) == 1,
        "one of them is left",
    )
    assert f"{stream.name}-by-hand" in snapshots.names()
    assert uid_of(stream, f"{stream.name}-theirs") == theirs
    stream.wait_for_events("SnapshotPruned")
    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
    load.judged()


@pytest.mark.matrix
def test_keep_for_removes_by_age_but_never_the_newest_that_is_usable(
    place: Scene,
) -> None:
    stream = filled(place, "aged", keepFor="1m")
    snapshots = Snapshots(stream)
    stream.wait_until(snapshots.names, "one was made")
    pace(60)  # until the next one is due
    stream.wait_for_events("SnapshotPruned")
    stream.patch(snapshots={"schedule": None})
    stream.wait_until_ready()  # as the newest spec wants it: what was being looked at before is over
    newest = snapshots.all()[-1]
    stream.wait_until(lambda: snapshots.names() == [newest.name], "one is left")
    too_old = (newest.status.completed or newest.created) + timedelta(minutes=1, seconds=30)
    stream.wait_until(lambda: datetime.now(UTC) > too_old, "it is older than it may be")
    pods = set(stream.uids("pods").values())
    stream.annotate("restart", "now")
    stream.wait_until(lambda: not pods & set(stream.uids("pods").values()), "it was restarted")
    stream.wait_until_rolled_out()
    assert snapshots.names() == [newest.name]


def is_scheduled(stream: ClusterStream, name: str) -> bool:
    """Whether a snapshot is named after a time of the schedule."""
    return name.removeprefix(f"{stream.name}-").replace("-", "").isdecimal()
