"""A worker whose transaction is terminated by an administrator: Kafka fences it, and there is no newer worker."""

from pathlib import Path
from threading import Event

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_kafka.side_topics import owners_topic
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import load_config
from dedupe_worker.supervisor import Supervisor
from tests.simulation.kafka.calls import Call, Moment
from tests.simulation.kafka.cluster import SimKafka, record
from tests.simulation.kafka.simple_clock import SimpleClock
from tests.support.traffic.streams import stream_manifest


@pytest.mark.parametrize("call", ["flush", "poll", "commit_transaction", "produce"])
def test_a_worker_whose_transaction_is_terminated_begins_anew_and_loses_nothing(
    tmp_path: Path, call: str
) -> None:
    clock = SimpleClock()
    cluster = SimKafka(clock)
    for topic in ("raw", "clean", "twice", owners_topic("clean")):
        cluster.create_topic(topic)
    cluster.write("raw", 0, [record(b"%d" % n, b"v") for n in range(50)])
    stream = stream_manifest(
        tmp_path,
        "simulated:9092",
        "raw",
        "clean",
        duplicates={"policy": "Topic", "topic": "twice"},
    )
    config = load_config(
        manifest=stream.manifest, partition=0, state_dir=tmp_path / "state", kafka_properties=None
    )
    fenced: list[str] = []

    def hook(at: Call) -> None:
        if (at.name, at.moment) == (call, Moment.BEFORE) and not fenced:
            fenced.append(call)
            cluster.coordinator.init(config.transactional_id, 60)

    factory = ComponentFactory(config, clock, cluster.clients("worker", hook))
    stop = Event()
    end = clock.monotonic() + 100
    clock.at_each_wait = lambda: stop.set() if clock.monotonic() > end else None
    assert Supervisor(factory, CommandQueue(), stop).run() is ExitCode.OK
    assert fenced
    assert set(factory.worker_state.errors) == {"TransactionExpired"}
    assert [each.key() for each in cluster.visible("clean", 0)] == [b"%d" % n for n in range(50)]
