"""The commands in the message about an open transaction, run with Kafka's own tool on a broker."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # NewTopic is public
    AdminClient,
    NewTopic,
)

from dedupe_crds.clock import SYSTEM_CLOCK
from dedupe_crds.manifest import load_manifest
from dedupe_growth.controller import GrowthController
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import OpenTransaction
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_worker.kafka.admin import Topics
from tests.conftest import is_led
from tests.support.kafka_tools.transactions import commands_in, run
from tests.support.patience import wait_for
from tests.support.processes.processes import Workers
from tests.support.processes.routers import RoutedStream

CreateTopic = Callable[..., str]

_COORDINATOR_LOG = "__transaction_state"


class Foreign:
    """A transaction of another producer, open on a topic."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self.id = f"foreign-{topic}"
        settings = {"bootstrap.servers": servers, "log_level": 0}
        plain = Producer(settings)
        plain.produce(topic, b"before", partition=0)
        assert plain.flush(60) == 0
        self.producer = Producer(
            {**settings, "transactional.id": self.id, "transaction.timeout.ms": 600_000}
        )
        self.producer.init_transactions(60)
        self.producer.begin_transaction()
        self.producer.produce(topic, b"in it", partition=0)
        assert self.producer.flush(60) == 0

    def commands(self) -> dict[str, str]:
        """Return the commands that the worker names, while it waits for this transaction."""
        with pytest.raises(OpenTransaction) as caught:
            self._settled()
        return commands_in(str(caught.value))

    def wait_until_over(self) -> None:
        """Wait until a worker that starts would wait no longer."""

        def over() -> bool:
            try:
                self._settled()
            except OpenTransaction:
                return False
            return True

        wait_for(over, "no transaction is open")

    def _settled(self) -> None:
        def give_up(error: OpenTransaction) -> None:
            raise error

        topics = Topics(AdminClient({"bootstrap.servers": self._servers}), Event(), SYSTEM_CLOCK)
        topics.settled_offsets(self._topic, 0, servers=self._servers, on_wait=give_up)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """Run a broker whose coordinator may forget everything."""
    with EmbeddedBroker(tmp_path / "broker", session_seconds=60) as running:
        yield running


def test_a_transaction_with_a_coordinator_is_found_and_ended_by_its_transactional_id(
    broker: EmbeddedBroker, topics: CreateTopic
) -> None:
    """It is not hanging. Its producer is told."""
    foreign = Foreign(broker.bootstrap_servers, topics("clean"))
    commands = foreign.commands()
    assert run(commands["find-hanging"]) == []
    [open_one] = [
        row
        for row in run(commands["describe-producers"])
        if row["CurrentTransactionStartOffset"] == "1"
    ]
    [found] = [row for row in run(commands["list"]) if row["ProducerId"] == open_one["ProducerId"]]
    assert (found["TransactionalId"], found["TransactionState"]) == (foreign.id, "Ongoing")

    run(commands["forceTerminateTransaction"].replace(" ID", f" {found['TransactionalId']}"))
    foreign.wait_until_over()
    with pytest.raises(KafkaException) as refused:
        foreign.producer.commit_transaction(60)
    assert refused.value.args[0].code() == KafkaError._FENCED  # noqa: SLF001 (a public name)


def test_an_abort_of_a_transaction_with_a_coordinator_takes_records_from_its_commit(
    broker: EmbeddedBroker, topics: CreateTopic
) -> None:
    """Its producer is not told: so the message allows `abort` for a hanging one only."""
    topic = topics("clean")
    foreign = Foreign(broker.bootstrap_servers, topic)
    run(foreign.commands()["abort"])
    foreign.wait_until_over()
    foreign.producer.produce(topic, b"later in it", partition=0)
    foreign.producer.commit_transaction(60)
    foreign.wait_until_over()
    assert committed(broker.bootstrap_servers, topic) == [b"before", b"later in it"]


def test_a_hanging_transaction_is_found_and_aborted(own_broker: EmbeddedBroker) -> None:
    """It hangs because its coordinator forgets it."""
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap_servers})
    create_topic(admin, "clean")
    foreign = Foreign(own_broker.bootstrap_servers, "clean")
    commands = foreign.commands()
    admin.delete_topics([_COORDINATOR_LOG])[_COORDINATOR_LOG].result(60)
    [hanging] = wait_for(
        lambda: run(commands["find-hanging"]), "the coordinator has forgotten it", poll_seconds=1
    )
    assert (hanging["Topic"], hanging["Partition"], hanging["StartOffset"]) == ("clean", "0", "1")

    run(commands["abort"])
    foreign.wait_until_over()
    assert run(commands["find-hanging"]) == []


def test_a_worker_that_learns_from_an_output_names_its_open_transaction(
    routed_streams: Callable[..., RoutedStream], workers: Workers
) -> None:
    """And goes on when that ends, in the same session."""
    stream = routed_streams(inputs=(1,), partitions=1)
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"]["repartition"]["partitions"] = 2
    stream.manifest.write_text(yaml.safe_dump(document))
    grown, cluster = load_manifest(stream.manifest), Cluster(stream.bootstrap_servers)
    cluster.ensure_output(grown)
    assert GrowthController(grown, {}, cluster).step(2, {})
    foreign = Foreign(stream.bootstrap_servers, stream.output_topic)
    worker = workers.start(stream, 1)

    def reads() -> tuple[str | None, int | None]:
        status = worker.status()
        return status.reason, status.reconcile.remaining if status.reconcile else None

    worker.wait_until(lambda: reads() == ("OpenTransaction", 1), "it waits for the transaction")
    foreign.producer.commit_transaction(60)
    worker.wait_until(lambda: reads() == (None, 0), "it has read what the transaction hid")
    assert "session failed" not in worker.log_path.read_text()


def create_topic(admin: AdminClient, name: str) -> None:
    """Create a topic, and wait until the broker leads it."""
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    wait_for(lambda: is_led(admin, name), f"the broker knows {name}")


def committed(servers: str, topic: str) -> list[bytes | None]:
    """Return the values that a reader of committed records sees, up to the end."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "any", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while True:
        [message] = consumer.consume(1, 60)
        if message.error() is not None:
            break
        values.append(message.value())
    consumer.close()
    return values
