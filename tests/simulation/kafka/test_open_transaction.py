"""A worker whose session fails and leaves a transaction open: the next session ends it, and does not wait for it."""

from collections import Counter
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka import KafkaError

from dedupe_crds.status.exit_code import ExitCode
from dedupe_kafka.client_config import TRANSACTION_SECONDS
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig, load_config
from dedupe_worker.supervisor import Supervisor
from tests.simulation.kafka.calls import Call, Moment
from tests.simulation.kafka.cluster import SimKafka, record
from tests.simulation.kafka.failures import failure
from tests.simulation.kafka.simple_clock import SimpleClock
from tests.support.traffic.streams import stream_manifest


def stream_of(tmp_path: Path, clock: SimpleClock, records: int) -> tuple[SimKafka, WorkerConfig]:
    """Return a Kafka with an input of so many records, and the configuration of a worker."""
    cluster = SimKafka(clock)
    for topic in ("raw", "clean"):
        cluster.create_topic(topic)
    cluster.write("raw", 0, [record(b"%d" % n, b"v") for n in range(records)])
    stream = stream_manifest(tmp_path, "simulated:9092", "raw", "clean")
    config = load_config(
        manifest=stream.manifest, partition=0, state_dir=tmp_path / "state", kafka_properties=None
    )
    return cluster, config


@pytest.mark.parametrize("commit", [1, 2], ids=["of the start", "of records, and no abort"])
def test_a_transaction_that_was_left_open_is_ended_and_not_waited_for(
    tmp_path: Path, commit: int
) -> None:
    clock = SimpleClock()
    cluster, config = stream_of(tmp_path, clock, 50)
    calls: Counter[str] = Counter()

    def hook(at: Call) -> None:
        if at.moment is Moment.AFTER:
            return
        calls[at.name] += 1
        number = {"commit_transaction": commit, "abort_transaction": 1}.get(at.name)
        if calls[at.name] == number:
            raise failure(KafkaError.INVALID_TXN_STATE, at.name)

    factory = ComponentFactory(config, clock, cluster.clients("worker", hook))
    stop, began = Event(), clock.monotonic()

    def passed() -> bool:
        return len(cluster.visible("clean", 0)) == 50

    def watch() -> None:
        if passed() or clock.monotonic() > began + TRANSACTION_SECONDS / 2:
            stop.set()

    clock.at_each_wait = watch
    assert Supervisor(factory, CommandQueue(), stop).run() is ExitCode.OK
    assert calls["commit_transaction"] > commit
    assert calls["abort_transaction"] == commit - 1
    assert passed()
    assert factory.worker_state.errors == {"BrokerUnavailable": 1}, "what the hook has raised"


def test_one_that_stays_open_in_the_input_is_told_with_its_place_until_it_ends(
    tmp_path: Path,
) -> None:
    clock = SimpleClock()
    cluster, config = stream_of(tmp_path, clock, 3)
    other = cluster.begin_foreign("another", 900.0)
    other.write("raw", 0, [record(b"in it", b"v")])
    cluster.write("raw", 0, [record(b"behind", b"v")])
    factory = ComponentFactory(config, clock, cluster.clients("worker", lambda _: None))
    stop, began = Event(), clock.monotonic()
    told: dict[int, list[str]] = {}

    def watch() -> None:
        seconds = int(clock.monotonic() - began)
        told[seconds] = [each.message for each in factory.worker_state.degradations.current()]
        if seconds == 120 and len(cluster.visible("clean", 0)) == 3:
            other.commit()
        if seconds >= 180:
            stop.set()

    clock.at_each_wait = watch
    assert Supervisor(factory, CommandQueue(), stop).run() is ExitCode.OK
    assert not any(messages for seconds, messages in told.items() if seconds < 60)
    [message] = told[110]
    assert message.startswith("since 1970-01-12 13:4")
    assert "raw/0: a transaction of another producer is open since offset 3" in message
    assert "to the end at 5" in message
    assert not told[max(told)]
    assert len(cluster.visible("clean", 0)) == 5
