"""Inputs that lose records which were read, under the real worker on the simulated Kafka."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from dedupe_crds.status.worker import WorkerStatus
from dedupe_worker.status import WorkerState
from tests.simulation.kafka.stream_world import StreamWorld, values, with_value

KEPT, LOST, READ = 60, 40, 100
OLD = values("old", READ)
NEW = values("new", 70)
DELIVERIES = ["ExactlyOnce", "AtLeastOnce"]


@pytest.fixture
def world(tmp_path: Path) -> StreamWorld:
    made = StreamWorld(tmp_path, topic_ids=True)
    made.write(*OLD)
    return made


def lose(world: StreamWorld, *new: str) -> None:
    """Lose what was read from KEPT on; records without an id come in its place."""
    world.cluster.truncate("raw", 0, KEPT)
    world.write(*new, key=False)


def accepting(**others: Any) -> dict[str, Any]:  # noqa: ANN401 # any field's value
    loss = {"topic": "raw", "partition": 0, "offset": KEPT, "epoch": 0, **others}
    return {"input": {"topic": "raw", "acceptTruncated": [loss]}}


def reasons(status: WorkerStatus) -> set[str]:
    return {each.reason for each in status.degraded}


def waits(status: WorkerStatus) -> bool:
    return status.reason == "InputTruncated"


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("new", [NEW, NEW[:5], []], ids=["grown", "shorter", "cut"])
@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_a_loss_waits_and_then_skips_nothing(
    world: StreamWorld, delivery: str, new: list[str], *, running: bool
) -> None:
    def cut(_: WorkerState) -> None:
        lose(world, *new)

    status = world.run({20.0: cut} if running else {}, delivery=delivery)
    if not running:
        lose(world, *new)
        status = world.run(delivery=delivery)
    assert waits(status)
    assert world.clean() == OLD
    assert waits(world.run(delivery=delivery, **accepting(epoch=1)))
    assert waits(world.run(delivery=delivery, **accepting(offset=KEPT - 1)))
    status = world.run(delivery=delivery, **accepting())
    assert "InputTruncated" in reasons(status)
    assert world.clean() == [*OLD, *new]
    world.write("later", key=False)
    status = world.run(delivery=delivery, **accepting())
    assert "InputTruncated" not in reasons(status), "it counts once"
    assert world.clean() == [*OLD, *new, "later"]
    world.cluster.expire_offsets("default.raw")
    world.write("last", key=False)
    status = world.run(delivery=delivery)
    assert "InputTruncated" not in reasons(status), "the store is of the new log as well"
    assert world.clean() == [*OLD, *new, "later", "last"]


def test_another_loss_at_the_same_offset_waits_again(world: StreamWorld) -> None:
    world.run()
    lose(world, *NEW)
    world.run(**accepting())
    lose(world, *values("newer", 90))
    assert waits(world.run(**accepting()))
    world.run(**accepting(epoch=1))
    assert world.clean() == [*OLD, *NEW, *values("newer", 90)]


def test_what_was_lost_and_is_sent_again_is_a_duplicate(world: StreamWorld) -> None:
    world.run()
    world.cluster.truncate("raw", 0, KEPT)
    world.write(*OLD[KEPT:], "new")
    world.run(**accepting())
    assert world.clean() == [*OLD, "new"]


def test_a_volume_of_before_the_loss_does_not_count_against_what_was_read_since(
    world: StreamWorld,
) -> None:
    world.run()
    shutil.copytree(world.directory / "state", world.directory / "older")
    lose(world, "new0")
    world.run(**accepting())
    shutil.rmtree(world.directory / "state")
    (world.directory / "older").rename(world.directory / "state")
    world.write("new1", key=False)
    assert not waits(world.run())
    assert world.clean() == [*OLD, "new0", "new1"]


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("volume", ["older", "lost"])
def test_a_store_that_has_caught_up_knows_the_epoch_when_the_committed_offset_is_gone(
    world: StreamWorld, delivery: str, volume: str
) -> None:
    world.run(delivery=delivery)
    state, older = world.directory / "state", world.directory / "older"
    shutil.copytree(state, older)
    world.write("more0", "more1")
    world.run(delivery=delivery)
    shutil.rmtree(state)
    if volume == "older":
        older.rename(state)
    world.run(delivery=delivery)
    world.cluster.expire_offsets("default.raw")
    lose(world, *NEW)
    assert waits(world.run(delivery=delivery))
    world.run(delivery=delivery, **accepting())
    assert world.clean() == [*OLD, "more0", "more1", *NEW]


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_worker_killed_anywhere_on_the_way_skips_nothing(tmp_path: Path, delivery: str) -> None:
    for moment in range(1, 40):
        world = StreamWorld(tmp_path / str(moment), topic_ids=True)
        world.write(*OLD)
        world.run(delivery=delivery)
        world.cluster.truncate("raw", 0, KEPT)
        world.write(*NEW)
        world.run_killed(moment, delivery=delivery, **accepting())
        assert not waits(world.run(delivery=delivery, **accepting())), moment
        assert sorted(set(world.clean())) == sorted([*OLD, *NEW]), moment
        if delivery == "ExactlyOnce":
            assert world.clean() == [*OLD, *NEW], moment


def test_a_marker_of_a_later_leader_is_no_loss(world: StreamWorld) -> None:
    other = world.cluster.begin_foreign("other")
    other.write("raw", 0, [with_value("other", key=False)])
    world.cluster.log("raw", 0).change_leader()
    other.commit()
    world.run()
    world.cluster.log("raw", 0).change_leader()
    world.write("new", key=False)
    assert not waits(world.run())
    assert world.clean() == [*OLD, "other", "new"]


def test_lost_markers_are_no_loss_and_what_comes_in_their_place_is_read(world: StreamWorld) -> None:
    other = world.cluster.begin_foreign("other")
    other.write("raw", 0, [with_value("other", key=False)])
    end = world.cluster.log("raw", 0).end
    other.commit()
    world.run()
    world.cluster.truncate("raw", 0, end)
    world.write("in its place", "new", key=False)
    assert not waits(world.run())
    assert world.clean() == [*OLD, "other", "in its place", "new"]
