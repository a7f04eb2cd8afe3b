"""Snapshots that a schedule makes: as many are kept, and as long, as the spec says, and the newest always."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.cluster.environment import Environment
from tests.e2e.support.copied import copied_stream
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.scene import scene
from tests.e2e.support.snapshots import Snapshots, foreign_copy, uid_of
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.traffic.traffic import retries

COUNT = 600
EVERY_MINUTE = "* * * * *"
SCHEDULED_SECONDS = 200.0  # two times of the schedule


@pytest.fixture(scope="module")
def streams(
    release: Environment, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[str, ClusterStream]]:
    """Streams by what is kept of their snapshots, which go on side by side."""
    directory = tmp_path_factory.mktemp("schedule")
    with scene(release, "schedule", directory, request) as place:
        every_minute = {"schedule": EVERY_MINUTE}
        made = {
            "by count": copied_stream(place, "counted", snapshots={**every_minute, "keep": 1}),
            "by age": copied_stream(place, "aged", snapshots={**every_minute, "keepFor": "1m"}),
        }
        for stream in made.values():
            stream.apply()
        for stream in made.values():
            stream.wait_until_ready()
            stream.send(retries(SEED, COUNT))
            stream.wait_until_passed()
        yield made


@pytest.mark.timeout(600)
def test_keep_leaves_the_newest_of_the_schedule_and_none_that_is_not_ours_goes(
    streams: dict[str, ClusterStream],
) -> None:
    stream = streams["by count"]
    snapshots = Snapshots(stream)
    snapshots.make(f"{stream.name}-by-hand")
    theirs = foreign_copy(stream, f"{stream.name}-theirs")
    seen: set[str] = set()

    def two_were_made() -> bool:
        seen.update(name for name in snapshots.names() if is_scheduled(stream, name))
        return len(seen) >= 2

    stream.wait_until(two_were_made, "two were made", deadline_seconds=SCHEDULED_SECONDS)
    stream.wait_until(
        lambda: len([name for name in snapshots.names() if is_scheduled(stream, name)]) == 1,
        "one of them is left",
        deadline_seconds=SCHEDULED_SECONDS,
    )
    assert f"{stream.name}-by-hand" in snapshots.names()
    assert uid_of(stream, f"{stream.name}-theirs") == theirs
    stream.wait_for_events("SnapshotPruned")
    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
    load.judged()


@pytest.mark.timeout(600)
def test_keep_for_removes_by_age_but_never_the_newest_that_is_usable(
    streams: dict[str, ClusterStream],
) -> None:
    stream = streams["by age"]
    snapshots = Snapshots(stream)
    stream.wait_for_events("SnapshotPruned", deadline_seconds=SCHEDULED_SECONDS)
    stream.patch(snapshots={"schedule": None})
    stream.wait_until_ready()  # as the newest spec wants it: what was being looked at before is over
    newest = snapshots.all()[-1]
    stream.wait_until(
        lambda: snapshots.names() == [newest.name], "one is left", deadline_seconds=120
    )
    too_old = (newest.status.completed or newest.created) + timedelta(minutes=1, seconds=30)
    stream.wait_until(
        lambda: datetime.now(UTC) > too_old, "it is older than it may be", deadline_seconds=100
    )
    pods = set(stream.uids("pods").values())
    stream.annotate("restart", "now")
    stream.wait_until(lambda: not pods & set(stream.uids("pods").values()), "it was restarted")
    stream.wait_until_rolled_out()
    assert snapshots.names() == [newest.name]


def is_scheduled(stream: ClusterStream, name: str) -> bool:
    """Whether a snapshot is named after a time of the schedule."""
    return name.removeprefix(f"{stream.name}-").replace("-", "").isdecimal()
