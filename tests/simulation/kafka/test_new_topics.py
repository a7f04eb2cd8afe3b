"""Topics that are deleted and created again under the real worker, on the simulated Kafka."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dedupe_crds.status.worker import WorkerStatus
from dedupe_worker.status import WorkerState
from dedupe_worker.store.state_dir import StateDirectory
from tests.simulation.kafka.calls import Call
from tests.simulation.kafka.stream_world import StreamWorld, values, with_value
from tests.support.layers import later


@pytest.fixture
def world(tmp_path: Path) -> StreamWorld:
    return StreamWorld(tmp_path, topic_ids=True)


@pytest.fixture
def without_ids(tmp_path: Path) -> StreamWorld:
    return StreamWorld(tmp_path, topic_ids=False)


def reasons(status: WorkerStatus) -> set[str]:
    return {each.reason for each in status.degraded}


# -- with topic ids --------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [11.0, 12.3, 15.75, 19.9])
@pytest.mark.parametrize("delivery", ["ExactlyOnce", "AtLeastOnce"])
def test_an_input_that_grew_past_the_worker_is_read_from_its_start_in_order(
    world: StreamWorld, delivery: str, after: float
) -> None:
    """At once, not at the next description of the topic: also records without an id pass once."""
    world.write(*values("old", 50), key=False)

    def make_anew(_: WorkerState) -> None:
        world.cluster.recreate_topic("raw")
        world.write(*values("new", 200), key=False)

    status = world.run({after: make_anew}, delivery=delivery)
    assert world.clean() == [*values("old", 50), *values("new", 200)]
    assert "InputTopicReplaced" in reasons(status)


def run_after_standing_still(world: StreamWorld, meanwhile: Callable[[StreamWorld], None]) -> None:
    """Run a worker that stands still before it takes over; the older worker runs `meanwhile`."""
    older = StreamWorld(world.directory / "older", topic_ids=True)
    older.cluster, older.clock, older.seconds = world.cluster, world.clock, 20.0
    stood_still = False

    def stand_still(call: Call) -> None:
        nonlocal stood_still
        if call.name == "init_transactions" and not stood_still:
            stood_still = True
            meanwhile(older)

    assert world.run_with(stand_still).ready
    assert stood_still


def test_an_input_that_is_created_again_while_a_start_stands_still_is_read_once(
    world: StreamWorld,
) -> None:
    """It described the topic before, and the older worker has read the new one."""
    world.write(*values("old", 5))
    world.run()

    def meanwhile(older: StreamWorld) -> None:
        world.cluster.recreate_topic("raw")
        world.write(*values("new", 30), key=False)
        older.run()

    run_after_standing_still(world, meanwhile)
    assert world.clean() == [*values("old", 5), *values("new", 30)]


def test_an_output_that_is_created_again_while_a_start_stands_still_is_read_whole(
    world: StreamWorld,
) -> None:
    """The store is of the topic before, whose position says nothing of the new one."""
    world.write(*values("old", 5))
    world.run()

    def meanwhile(older: StreamWorld) -> None:
        world.cluster.recreate_topic("clean")
        world.write(*values("new", 30))
        older.run()
        world.write(*values("new", 30))

    run_after_standing_still(world, meanwhile)
    assert world.clean() == values("new", 30)


MOMENTS = 75
"""The calls of a start, before and after each, and some of the running loop."""


@pytest.mark.parametrize(
    ("topic_ids", "delivery"), [(True, "ExactlyOnce"), later(False, "AtLeastOnce")]
)
def test_a_kill_at_any_moment_of_a_start_with_a_new_input_skips_nothing(
    tmp_path: Path, topic_ids: bool, delivery: str
) -> None:
    """Then volume and group name one topic or the other; and the reason is reported again."""
    recorded = set()
    for moment in range(1, MOMENTS + 1):
        world = StreamWorld(tmp_path / str(moment), topic_ids=topic_ids)
        world.write(*values("old", 20))
        world.run(delivery=delivery)
        world.cluster.recreate_topic("raw")
        world.write(*values("new", 30))
        world.run_killed(moment, delivery=delivery)
        identity = StateDirectory(world.directory / "state").recorded("default/raw", 0)
        assert identity is not None
        status = world.run(delivery=delivery)
        assert world.clean() == [*values("old", 20), *values("new", 30)], moment
        assert (status.ready, status.reason) == (True, None), moment
        is_recorded = identity.input_topic_id == str(world.cluster.topics.get("raw").id)
        assert is_recorded or "InputTopicReplaced" in reasons(status), moment
        recorded.add(is_recorded)
    assert recorded == ({False, True} if topic_ids else {True})


def test_an_input_and_an_output_that_are_both_new_are_both_reported(world: StreamWorld) -> None:
    world.write(*values("old", 50))
    world.run()
    for topic in ("raw", "clean"):
        world.cluster.recreate_topic(topic)
    world.write(*values("new", 20))
    status = world.run()
    assert world.clean() == values("new", 20)
    assert status.window.truncated
    [degraded] = [each for each in status.degraded if each.reason == "InputTopicReplaced"]
    assert "up to offset 50;" in degraded.message


# -- without ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("new", [20, 200])
def test_without_ids_an_input_made_anew_between_two_sessions_is_read_from_its_start(
    without_ids: StreamWorld, new: int
) -> None:
    without_ids.write(*values("old", 50))
    without_ids.run()
    without_ids.cluster.recreate_topic("raw")
    without_ids.write(*values("new", new))
    status = without_ids.run()
    assert without_ids.clean() == [*values("old", 50), *values("new", new)]
    assert "InputTopicReplaced" in reasons(status)
    assert status.ready


def test_without_ids_an_output_made_anew_between_two_sessions_is_noticed(
    without_ids: StreamWorld,
) -> None:
    without_ids.write(*values("a", 50))
    without_ids.run()
    without_ids.cluster.recreate_topic("clean")
    without_ids.cluster.write("clean", 0, [with_value(each) for each in values("other", 200)])
    without_ids.write(*values("a", 50))
    status = without_ids.run()
    assert without_ids.clean() == [*values("other", 200), *values("a", 50)]
    assert status.window.truncated
    assert status.ready


@pytest.mark.parametrize("topic", ["raw", "clean"])
def test_without_ids_a_running_worker_notices_a_topic_that_is_shorter(
    without_ids: StreamWorld, topic: str
) -> None:
    without_ids.write(*values("old", 50))

    def make_anew(_: WorkerState) -> None:
        without_ids.cluster.recreate_topic(topic)

    status = without_ids.run(
        {15.0: make_anew, 40.0: lambda _: without_ids.write(*values("new", 20))}
    )
    before = values("old", 50) if topic == "raw" else []
    assert without_ids.clean() == [*before, *values("new", 20)]
    assert status.ready
    if topic == "raw":
        assert "InputTopicReplaced" in reasons(status)
    else:
        assert status.window.truncated


def test_without_ids_a_topic_that_can_t_be_proved_waits_for_a_person(
    without_ids: StreamWorld,
) -> None:
    without_ids.write(*values("a", 50))
    without_ids.run()
    without_ids.write(*values("b", 20))
    without_ids.cluster.delete_records("raw", 0, 55)
    status = without_ids.run()
    assert status.reason == "TopicUnproved"
    assert "acceptUnprovedTopics" in (status.message or "")
    assert not status.ready
    assert without_ids.clean() == values("a", 50)

    kafka = {"bootstrapServers": "simulated:9092", "acceptUnprovedTopics": True}
    status = without_ids.run(kafka=kafka)
    assert status.ready
    assert without_ids.clean() == [*values("a", 50), *values("b", 20)[5:]]
    assert {each.reason: each.count for each in status.degraded}["InputExpired"] == 5


def test_without_ids_a_store_of_an_earlier_release_goes_on_and_gets_fingerprints(
    without_ids: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ids.write(*values("a", 50))
    with monkeypatch.context() as earlier:
        earlier.setattr("dedupe_worker.component_factory.has_id", lambda _: True)
        without_ids.run()
    without_ids.write(*values("a", 60))
    status = without_ids.run()
    assert status.ready
    assert not reasons(status)
    assert status.counts.consumed == 60
    assert without_ids.clean() == values("a", 60)

    without_ids.cluster.recreate_topic("raw")
    without_ids.write(*values("c", 300))
    assert "InputTopicReplaced" in reasons(without_ids.run()), "now it has fingerprints"
    assert without_ids.clean() == [*values("a", 60), *values("c", 300)]
