"""The real worker on the simulated Kafka, without faults."""

import shutil
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import Phase
from dedupe_kafka.side_topics import filters_topic, owners_topic
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import load_config
from dedupe_worker.status import WorkerState
from dedupe_worker.supervisor import Supervisor
from tests.simulation.kafka.calls import Call, Killed, Moment
from tests.simulation.kafka.cluster import SimKafka, no_faults, record
from tests.simulation.kafka.simple_clock import SimpleClock
from tests.simulation.kafka.stream_world import StreamWorld, values
from tests.support.traffic.streams import stream_manifest


def run_worker(cluster: SimKafka, clock: SimpleClock, directory: Path, **spec: object) -> ExitCode:
    """Run a worker until it has committed all input and was idle for some seconds."""
    stream = stream_manifest(directory, "simulated:9092", "raw", "clean", **spec)
    config = load_config(
        manifest=stream.manifest, partition=0, state_dir=directory / "state", kafka_properties=None
    )
    stop = Event()
    end = clock.monotonic() + 20

    def end_in_time() -> None:
        if clock.monotonic() >= end:
            stop.set()

    clock.at_each_wait = end_in_time
    factory = ComponentFactory(config, clock, cluster.clients("worker", no_faults))
    return Supervisor(factory, CommandQueue(), stop).run()


@pytest.mark.parametrize("delivery", ["ExactlyOnce", "AtLeastOnce"])
def test_a_worker_removes_duplicates(tmp_path: Path, delivery: str) -> None:
    clock = SimpleClock()
    cluster = SimKafka(clock)
    for topic in ("raw", "clean"):
        cluster.create_topic(topic)
    cluster.write("raw", 0, [record(b"%d" % (n % 60), b"v%d" % n) for n in range(100)])
    assert run_worker(cluster, clock, tmp_path, delivery=delivery) is ExitCode.OK
    assert [each.key() for each in cluster.visible("clean", 0)] == [b"%d" % n for n in range(60)]
    cluster.write("raw", 0, [record(b"%d" % n, b"again") for n in range(50, 70)])
    assert run_worker(cluster, clock, tmp_path, delivery=delivery) is ExitCode.OK
    assert [each.key() for each in cluster.visible("clean", 0)] == [b"%d" % n for n in range(70)]
    committed = cluster.groups.committed("default.raw", "raw", 0)
    assert committed is not None
    assert committed.offset == 120


def test_a_worker_routes_duplicates_and_rebuilds_their_owners(tmp_path: Path) -> None:
    clock = SimpleClock()
    cluster = SimKafka(clock)
    for topic in ("raw", "clean", "twice", owners_topic("clean")):
        cluster.create_topic(topic)
    routed = {"policy": "Topic", "topic": "twice"}
    cluster.write("raw", 0, [record(b"a", b"1"), record(b"b", b"2"), record(b"a", b"1")])
    assert run_worker(cluster, clock, tmp_path, duplicates=routed) is ExitCode.OK
    cluster.write("raw", 0, [record(b"b", b"2")])
    other = tmp_path / "other"
    other.mkdir()
    assert run_worker(cluster, clock, other, duplicates=routed) is ExitCode.OK
    assert [each.key() for each in cluster.visible("clean", 0)] == [b"a", b"b"]
    assert [each.key() for each in cluster.visible("twice", 0)] == [b"a", b"b"]


def test_a_worker_that_runs_shows_the_window_of_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the session before, until the first step of the loop has ended."""
    world = StreamWorld(tmp_path, topic_ids=True)
    world.write(*values("a", 50))
    world.run()
    shown = []
    set_phase = WorkerState.set_phase

    def look(state: WorkerState, phase: Phase) -> None:
        if phase is Phase.RUNNING:
            shown.append(state.window.keys)
        set_phase(state, phase)

    monkeypatch.setattr(WorkerState, "set_phase", look)
    world.run()
    assert shown == [50]


def test_without_transactions_a_start_needs_no_output_that_retention_has_deleted(
    tmp_path: Path,
) -> None:
    """Records of others, behind the position that was committed with the input offset."""
    world = StreamWorld(tmp_path, topic_ids=True)
    world.write("a")
    world.run(delivery="AtLeastOnce")
    world.cluster.write("clean", 0, [record(b"f", b"f") for _ in range(3)])
    world.cluster.delete_records("clean", 0, 2)
    shutil.rmtree(tmp_path / "state")
    world.write("b")
    status = world.run(delivery="AtLeastOnce")
    assert status.ready, status.reason
    assert world.clean() == ["f", "f", "b"]


@pytest.mark.parametrize(
    ("mode", "counts", "output"),
    [("Enforce", (5, 1), ["a20"]), ("Observe", (0, 6), [*values("a", 20)[15:], "a20", "a12"])],
)
def test_without_transactions_retention_hides_no_output_that_is_not_committed(
    tmp_path: Path, mode: str, counts: tuple[int, int], output: list[str]
) -> None:
    """It deletes input beyond the committed offset, of which some has passed and some is read again."""
    world = StreamWorld(tmp_path, topic_ids=True)
    sent = values("a", 20)
    world.write(*sent[:10])
    world.run(delivery="AtLeastOnce", mode=mode)
    world.write(*sent[10:])

    def kill(_: Call) -> None:
        if len(world.clean()) == len(sent):
            raise Killed

    factory = world.factory(None, kill, delivery="AtLeastOnce", mode=mode)
    with pytest.raises(Killed):
        Supervisor(factory, CommandQueue(), Event()).run()
    world.cluster.delete_records("raw", 0, 15)
    world.write("a20", "a12")
    found = world.run(delivery="AtLeastOnce", mode=mode).counts
    assert (found.redelivered, found.duplicates) == counts
    assert world.clean() == [*sent, *output]


def test_without_transactions_a_kill_while_output_is_read_again_routes_nothing(
    tmp_path: Path,
) -> None:
    """The commit before the second kill must not cover output whose input is still to be read again."""
    world = StreamWorld(tmp_path, topic_ids=True)
    for topic in ("twice", owners_topic("clean")):
        world.cluster.create_topic(topic)
    spec: dict[str, Any] = {
        "delivery": "AtLeastOnce",
        "duplicates": {"policy": "Topic", "topic": "twice"},
        "worker": {"tuning": {"maxBatchRecords": 10, "maxTransactionRecords": 10}},
    }
    world.run(**spec)
    sent = values("a", 40)
    world.write(*sent)

    def kill_before_a_commit(call: Call) -> None:
        if call.name == "commit" and call.moment is Moment.BEFORE and len(world.clean()) >= 10:
            raise Killed

    def kill_after_a_commit(call: Call) -> None:
        if call.name == "commit" and call.moment is Moment.AFTER:
            raise Killed

    larger = {**spec, "worker": {"tuning": {"maxBatchRecords": 10, "maxTransactionRecords": 40}}}
    for kill, wanted in ((kill_before_a_commit, larger), (kill_after_a_commit, spec)):
        with pytest.raises(Killed):
            Supervisor(world.factory(None, kill, **wanted), CommandQueue(), Event()).run()
    committed = world.cluster.groups.committed("default.raw", "raw", 0)
    assert committed is not None
    assert 0 < committed.offset < len(sent)
    world.run(**spec)
    assert world.clean() == sent
    assert world.cluster.visible("twice", 0) == []


def test_what_is_read_again_because_of_an_open_transaction_takes_no_room_twice(
    tmp_path: Path,
) -> None:
    """The position stays before the transaction, so a start reads the worker's own records behind it."""
    world = StreamWorld(tmp_path, topic_ids=True)
    world.write(*values("a", 10))

    def act(_: WorkerState) -> None:
        other = world.cluster.begin_foreign("other", 70.0)
        other.write("clean", 0, [record(b"never committed", b"")])
        world.write(*values("b", 50))

    assert world.run({1: act}).window.keys == 60
    world.write(*values("b", 50), "c")
    status = world.run()
    assert status.reconcile is not None
    assert status.reconcile.records == 50, "it read them again"
    assert status.window.keys == 61
    assert world.clean() == [*values("a", 10), *values("b", 50), "c"]


def test_an_open_transaction_in_the_owner_log_costs_no_original(tmp_path: Path) -> None:
    """The worker's own entries are behind it, and a start waits for its end."""
    clock = SimpleClock()
    cluster = SimKafka(clock)
    for topic in ("raw", "clean", "twice", owners_topic("clean")):
        cluster.create_topic(topic)
    routed = {"policy": "Topic", "topic": "twice"}
    other = cluster.begin_foreign("other", 25.0)
    other.write(owners_topic("clean"), 0, [record(b"x", b"never committed")])
    cluster.write("raw", 0, [record(b"a", b"1"), record(b"b", b"2")])
    assert run_worker(cluster, clock, tmp_path, duplicates=routed) is ExitCode.OK
    cluster.write("raw", 0, [record(b"b", b"2"), record(b"a", b"1")])
    other_volume = tmp_path / "other"
    other_volume.mkdir()
    assert run_worker(cluster, clock, other_volume, duplicates=routed) is ExitCode.OK
    assert cluster.visible("clean", 0)[2:] == []
    originals = [
        dict(each.headers() or [])["dedupe-original"] for each in cluster.visible("twice", 0)
    ]
    assert originals == [b"0:1", b"0:0"]


def test_a_start_on_a_slow_broker_is_no_reason_for_the_watchdog(tmp_path: Path) -> None:
    """Each request is answered just in time, and a start has many."""
    clock = SimpleClock()
    cluster = SimKafka(clock)
    sides = ("twice", "conflicts", "late", owners_topic("clean"), filters_topic("clean"))
    for topic in ("raw", "clean", *sides):
        cluster.create_topic(topic)
    cluster.request_seconds = 14.0
    stream = stream_manifest(
        *(tmp_path, "simulated:9092", "raw", "clean"),
        output={"topic": "clean", "filter": {"from": "Header", "name": "country"}},
        duplicates={"policy": "Topic", "topic": "twice"},
        conflicts={"policy": "Topic", "topic": "conflicts"},
        late={"policy": "Topic", "topic": "late"},
    )
    config = load_config(
        manifest=stream.manifest, partition=0, state_dir=tmp_path / "state", kafka_properties=None
    )
    factory = ComponentFactory(config, clock, cluster.clients("worker", no_faults))
    state, stop = factory.worker_state, Event()
    oldest = 0.0

    def watch() -> None:
        nonlocal oldest
        oldest = max(oldest, state.heartbeat_age_seconds)
        if state.phase is Phase.RUNNING:
            stop.set()

    clock.at_each_wait = watch
    assert Supervisor(factory, CommandQueue(), stop).run() is ExitCode.OK
    assert not state.errors
    assert oldest < 180, "/healthz would fail"
