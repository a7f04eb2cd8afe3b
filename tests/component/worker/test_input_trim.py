"""A stream with routers on a real broker: its topics, and workers that delete what they have read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from dedupe_crds.manifest import load_manifest
from dedupe_crds.status.exit_code import ExitCode
from dedupe_kafka.cluster import Cluster
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import load_config
from dedupe_worker.dedup import housekeeping
from dedupe_worker.kafka import input_trim, topic_watch
from dedupe_worker.supervisor import Supervisor
from tests.support.checker import history
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.fixtures import HOLDS_ANYTHING
from tests.support.patience import wait_for
from tests.support.processes.processes import Workers
from tests.support.processes.routers import list_inputs
from tests.support.traffic.streams import TestStream, stream_manifest
from tests.support.traffic.traffic import retries

SEED = 20261125
RECORDS = 3_000
PARTITIONS = 2


@pytest.fixture
def stream(
    broker: EmbeddedBroker, topics: Callable[..., str], tmp_path: Path
) -> Iterator[TestStream]:
    """Create a stream whose input is the topic between routers and workers."""
    # The output is kept as long as the input, or it loses what is sent, which is of another year.
    raw, clean = topics("raw", **HOLDS_ANYTHING), f"clean-{uuid4().hex[:8]}"
    repartition = {"partitions": PARTITIONS}
    written = stream_manifest(
        tmp_path, broker.bootstrap_servers, raw, clean, repartition=repartition
    )
    between = f"{clean}-repartition"
    cluster = Cluster(broker.bootstrap_servers)
    cluster.wait_for(raw)
    manifest = load_manifest(written.manifest)
    found = cluster.ensure_output(manifest)
    assert (found.partitions, found.served, found.problems) == (PARTITIONS, PARTITIONS, ())
    list_inputs(manifest)
    yield TestStream(
        name=written.name,
        bootstrap_servers=written.bootstrap_servers,
        input_topic=between,
        output_topic=clean,
        manifest=written.manifest,
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deleted in admin.delete_topics(
        [between, clean, f"{clean}-epochs"], operation_timeout=30
    ).values():
        deleted.result(30)


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a worker in this process trim several times a second."""
    monkeypatch.setattr(housekeeping, "_TOPIC_CHECK_SECONDS", 0.1)
    monkeypatch.setattr(topic_watch, "_SHORTEST_SECONDS", 0.1)
    monkeypatch.setattr(input_trim, "_TRIM_SECONDS", 0.1)
    monkeypatch.setattr(input_trim, "_FIRST_SECONDS", 0.0)


@contextmanager
def running(stream: TestStream, state_dir: Path) -> Iterator[ComponentFactory]:
    """Run the worker of partition 0 in this process."""
    config = load_config(
        manifest=stream.manifest, partition=0, state_dir=state_dir, kafka_properties=None
    )
    factory, stop, codes = ComponentFactory(config), Event(), list[ExitCode]()
    supervisor = Supervisor(factory, CommandQueue(), stop)
    thread = Thread(target=lambda: codes.append(supervisor.run()), daemon=True)
    thread.start()
    try:
        yield factory
    finally:
        stop.set()
        thread.join(60)
    assert codes == [ExitCode.OK]


def wait_until_trimmed(stream: TestStream) -> None:
    """Wait until all that is in partition 0 now is committed and deleted."""
    end, cluster = stream.ends()[0], Cluster(stream.bootstrap_servers)
    wait_for(lambda: stream.progress().get(0) == end, f"offset {end} is committed")
    wait_for(
        lambda: cluster.offsets(stream.input_topic).lows[0] == end,
        f"the records before {end} are deleted",
    )


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("delivery", ["ExactlyOnce", "AtLeastOnce"])
def test_a_worker_deletes_what_it_has_committed_and_a_restart_loses_and_repeats_nothing(
    stream: TestStream, workers: Workers, tmp_path: Path, delivery: str
) -> None:
    text = stream.manifest.read_text()
    stream.manifest.write_text(f"{text}  delivery: {delivery}\n")
    state_dir = workers.state_dir(stream)
    stream.send(retries(SEED, RECORDS))
    raw = stream.raw()
    with running(stream, state_dir):
        wait_until_trimmed(stream)
    assert stream.raw() == []
    # No worker runs that deletes these before the test has read them.
    stream.send(retries(SEED, RECORDS // 2))
    raw += stream.raw()
    with running(stream, state_dir) as factory:
        wait_until_trimmed(stream)
        assert factory.worker_state.degradations.current() == []
    stream.settle()
    judge(raw, stream.clean(), key_id).assert_exactly_once()

    stream.send(retries(SEED, 2 * RECORDS))
    raw += stream.raw()
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    judge(raw, stream.clean(), key_id).assert_exactly_once()
    worker.wait_until(
        lambda: worker.status().counts.consumed == 2 * RECORDS, "it has read each record once"
    )
    assert worker.status().degraded == []
    assert worker.sigterm() == ExitCode.OK

    rebuilt = workers.start(stream, state_dir=tmp_path / "empty")
    rebuilt.wait_until_ready()
    assert rebuilt.status().degraded == [], "the output has what is deleted"
    stream.send(retries(SEED, 100))
    rebuilt.wait_until_caught_up()
    judge(raw, stream.clean(), key_id).assert_exactly_once()


@pytest.mark.usefixtures("_soon")
def test_the_records_of_other_partitions_stay(stream: TestStream, workers: Workers) -> None:
    stream.send(retries(SEED, RECORDS, partitions=PARTITIONS))
    before = [each for each in stream.raw() if each.partition == 1]
    with running(stream, workers.state_dir(stream)):
        wait_until_trimmed(stream)
    assert stream.raw() == before


def test_a_broker_gives_the_topics_of_a_pattern_without_topics_its_own_sizes(
    broker: EmbeddedBroker, topics: Callable[..., str], tmp_path: Path
) -> None:
    name = uuid4().hex[:8]
    clean = f"clean-{name}"
    written = stream_manifest(
        tmp_path,
        broker.bootstrap_servers,
        f"later-{name}",
        clean,
        input={"pattern": f"later-{name}-.*"},
        repartition={"partitions": PARTITIONS},
    )
    cluster, stream = Cluster(broker.bootstrap_servers), load_manifest(written.manifest)
    found = cluster.ensure_output(stream)
    assert [each.reason for each in found.problems] == ["NoInputTopic"]
    assert found.created
    source = topics(f"later-{name}")
    cluster.wait_for(source)
    assert [each.name for each in cluster.inputs(stream.spec)] == [source]
    again = cluster.ensure_output(stream)
    assert (again.problems, again.created) == ((), False)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deleted in admin.delete_topics([clean, f"{clean}-repartition", f"{clean}-epochs"]).values():
        deleted.result(30)


@pytest.mark.usefixtures("_soon")
def test_records_that_are_deleted_before_a_worker_has_read_them_are_still_reported(
    stream: TestStream, workers: Workers
) -> None:
    """By others: a worker deletes only what is committed."""
    stream.send(retries(SEED, 100))
    with running(stream, workers.state_dir(stream)):
        wait_until_trimmed(stream)
    stream.send(retries(SEED, 100, start=100))
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    cut = TopicPartition(stream.input_topic, 0, stream.ends()[0])
    admin.delete_records([cut])[cut].result(30)
    with running(stream, workers.state_dir(stream)) as factory:
        state = factory.worker_state
        wait_for(lambda: state.ready, "the worker runs")
        [degraded] = state.degradations.current()
    assert (degraded.reason, degraded.count) == ("InputExpired", 100)
    assert history.end_offsets(stream.bootstrap_servers, stream.input_topic)[0] == 200
