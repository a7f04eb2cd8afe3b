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
from dedupe_worker.config import load_config
from dedupe_worker.supervisor import Supervisor
from tests.simulation.kafka.calls import Call, Moment
from tests.simulation.kafka.cluster import SimKafka, record
from tests.simulation.kafka.failures import failure
from tests.simulation.kafka.simple_clock import SimpleClock
from tests.support.traffic.streams import stream_manifest


@pytest.mark.parametrize("commit", [1, 2], ids=["of the start", "of records, and no abort"])
def test_a_transaction_that_was_left_open_is_ended_and_not_waited_for(
    tmp_path: Path, commit: int
) -> None:
    clock = SimpleClock()
    cluster = SimKafka(clock)
    for topic in ("raw", "clean"):
        cluster.create_topic(topic)
    cluster.write("raw", 0, [record(b"%d" % n, b"v") for n in range(50)])
    stream = stream_manifest(tmp_path, "simulated:9092", "raw", "clean")
    config = load_config(
        manifest=stream.manifest, partition=0, state_dir=tmp_path / "state", kafka_properties=None
    )
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
