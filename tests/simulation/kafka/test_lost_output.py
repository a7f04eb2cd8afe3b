"""Outputs that lose records which were written, under the real worker on the simulated Kafka."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from dedupe_crds.status.worker import DegradedReason, WorkerStatus
from tests.simulation.kafka.stream_world import StreamWorld, values, with_value

KEPT, WRITTEN = 4, 10
OLD = values("old", WRITTEN)
NEW = values("new", 15)
OTHERS = values("other", 20)
"""Of another producer: with them the output is longer than it ever was."""
DELIVERIES = ["ExactlyOnce", "AtLeastOnce"]

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def world(tmp_path: Path) -> StreamWorld:
    made = StreamWorld(tmp_path, topic_ids=True)
    made.write(*OLD)
    return made


def lose(world: StreamWorld, *others: str) -> None:
    """Lose what was written from KEPT on; another producer's records come in its place."""
    world.cluster.truncate("clean", 0, KEPT)
    if others:
        world.cluster.write("clean", 0, [with_value(each) for each in others])


def finding(status: WorkerStatus) -> DegradedReason | None:
    return next((each for each in status.degraded if each.reason == "OutputTruncated"), None)


def found(world: StreamWorld, **spec: Any) -> str:  # noqa: ANN401 # any field's value
    """Run a worker, and return what it says to add to the manifest."""
    finding_ = finding(world.run(**spec))
    return finding_.message.rpartition("found: ")[2].rstrip("}") if finding_ else ""


def accepting(offset: int, at: str) -> dict[str, Any]:
    loss = {"topic": "clean", "partition": 0, "offset": offset, "found": at}
    return {"output": {"topic": "clean", "acceptTruncated": [loss]}}


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("others", [OTHERS, []], ids=["grown", "cut"])
@pytest.mark.parametrize("when", ["running", "idle", "stopped"])
def test_what_was_lost_passes_when_it_is_sent_again(
    world: StreamWorld, delivery: str, others: list[str], when: str
) -> None:
    if when == "stopped":
        world.run(delivery=delivery)
        lose(world, *others)
        status = world.run(delivery=delivery)
    else:
        acts = {20.0: lambda _: lose(world, *others)}
        if when == "running":
            acts |= {21.0: lambda _: world.write(*NEW), 45.0: lambda _: world.write("later")}
        status = world.run(acts, delivery=delivery)
    if when == "idle" and others:  # nothing shows it before the worker's next record, or start
        status = world.run(delivery=delivery)
    assert (told := finding(status)), "it is named"
    assert "clean/0" in told.message
    world.write(*OLD, *NEW, "later")
    assert finding(world.run(delivery=delivery)), "until a person has seen it, also after a start"
    assert sorted(world.clean()) == sorted([*OLD, *others, *NEW, "later"])


def test_a_record_of_another_producer_at_the_offset_of_the_last_one_is_told_apart(
    world: StreamWorld,
) -> None:
    world.run()
    last = world.cluster.visible("clean", 0)[-1].offset() or 0
    world.cluster.truncate("clean", 0, last)
    other = world.cluster.begin_foreign("other")
    other.write("clean", 0, [with_value("aborted")])
    other.abort()
    world.cluster.write("clean", 0, [with_value(each) for each in OTHERS])
    assert finding(world.run()), "no committed record is at its offset"
    world.write(OLD[-1])
    world.run()
    assert world.clean() == [*OLD[:-1], *OTHERS, OLD[-1]]


def test_an_accepted_loss_is_silent_and_the_next_one_is_not(world: StreamWorld) -> None:
    world.run()
    last = world.cluster.visible("clean", 0)[-1].offset() or 0
    end = world.cluster.log("clean", 0).end
    lose(world)
    at = found(world)
    world.seconds = 10.0
    wrong = accepting(KEPT, "20200101T000000Z")
    assert found(world, **wrong) == at, "an entry of another loss accepts nothing"
    assert finding(world.run(**accepting(KEPT, at))) is None
    assert finding(world.run()) is None, "it counts once"
    world.write(*values("more", end))
    world.run()
    lose(world)
    assert found(world) not in {"", at}
    assert last >= KEPT


@pytest.mark.parametrize("volume", ["kept", "lost", "older"])
def test_the_committed_offset_knows_how_far_the_output_was(world: StreamWorld, volume: str) -> None:
    world.run()
    state, older = world.directory / "state", world.directory / "older"
    shutil.copytree(state, older)
    world.write(*NEW)
    world.run()
    world.write("last")
    world.run()
    if volume != "kept":
        shutil.rmtree(state)
    if volume == "older":
        older.rename(state)
    world.cluster.truncate("clean", 0, world.cluster.log("clean", 0).end - 6)
    assert finding(world.run())
    assert "OutputTruncated" not in {
        each.reason for each in world.run(**accepting_all(world)).degraded
    }
    assert finding(world.run()) is None, "it counts once, though nothing was written since"


def accepting_all(world: StreamWorld) -> dict[str, Any]:
    """Accept what the worker has found."""
    told = finding(world.run())
    assert told is not None
    fields = told.message.rpartition("{")[2].rstrip("}").split(", ")
    entry = dict(field.split(": ") for field in fields)
    return accepting(int(entry["offset"]), entry["found"])


def test_retention_of_the_last_record_is_no_loss(world: StreamWorld) -> None:
    world.run()
    world.cluster.delete_records("clean", 0, world.cluster.log("clean", 0).end)
    assert finding(world.run()) is None
    world.cluster.write("clean", 0, [with_value("other")])
    assert finding(world.run()) is None


@pytest.mark.parametrize("others", [OTHERS, []], ids=["grown", "cut"])
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_worker_killed_anywhere_on_the_way_names_it_and_loses_nothing(
    tmp_path: Path, delivery: str, others: list[str]
) -> None:
    for moment in range(1, 40, 3):
        world = StreamWorld(tmp_path / str(moment), topic_ids=True)
        world.write(*OLD)
        world.run(delivery=delivery)
        lose(world, *others)
        world.write(*OLD, *NEW)
        world.run_killed(moment, delivery=delivery)
        told = finding(world.run(delivery=delivery))
        assert told, moment
        assert told.message.count("found: ") == 1, moment
        assert set(world.clean()) == {*OLD, *others, *NEW}, moment
        if delivery == "ExactlyOnce":
            assert len(world.clean()) == len({*OLD, *others, *NEW}), moment
