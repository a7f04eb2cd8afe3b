"""The topic state that validates copies of a store, from a real broker."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its documented names
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from dedupe_crds.manifest import load_manifest
from dedupe_kafka.client import kafka_error
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import TopicMissing, TopicRefused, TransactionTimeoutRefused
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.checker.record import Message
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import produce

CreateStream = Callable[..., TestStream]


def test_the_state_is_what_a_reader_of_committed_records_sees(
    broker: EmbeddedBroker, streams: CreateStream
) -> None:
    created = streams(partitions=2)
    stream, output = load_manifest(created.manifest), created.output_topic
    produce(broker.bootstrap_servers, output, [Message(1, b"k", b"v") for _ in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    cut = TopicPartition(output, 1, 4)
    admin.delete_records([cut])[cut].result(HANG_SECONDS)
    cluster = Cluster(broker.bootstrap_servers)
    state, empty = cluster.partition_state(stream, 1), cluster.partition_state(stream, 0)
    assert (state.low, state.end) == (4, 10)
    assert (empty.low, empty.end) == (0, 0)
    assert state.input_topic_id == empty.input_topic_id != state.output_topic_id


@pytest.mark.proof
def test_settings_that_break_a_promise_are_reported_by_a_broker_s_own_values(
    broker: EmbeddedBroker, streams: CreateStream
) -> None:
    created = streams()
    stream, source, output = (
        load_manifest(created.manifest),
        created.input_topic,
        created.output_topic,
    )
    cluster = Cluster(broker.bootstrap_servers)
    assert cluster.ensure_output(stream).problems == ()
    change(broker, source, {"cleanup.policy": "compact", "min.insync.replicas": "2"})
    change(
        broker,
        output,
        {"retention.bytes": "1000000", "message.timestamp.after.max.ms": "1000"},
    )

    def reasons() -> set[str]:
        return {problem.reason for problem in cluster.ensure_output(stream).problems}

    expected = {
        "InputCompacted",
        "OutputRetentionBySize",
        "OutputTopicLessSafe",
        "OutputTopicRefusesTimestamps",
    }
    wait_for(lambda: reasons() == expected, "the broker shows the new settings")


def test_a_name_that_collides_and_a_transaction_that_is_too_long_are_named(
    broker: EmbeddedBroker, streams: CreateStream
) -> None:
    cluster = Cluster(broker.bootstrap_servers)
    name = streams().output_topic
    cluster.create(f"{name}.copy", 1, 1, {})
    with pytest.raises(TopicRefused, match="another name"):
        cluster.create(f"{name}_copy", 1, 1, {})
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": 15 * 60_000 + 1,
        }
    )
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(HANG_SECONDS)
    assert isinstance(kafka_error(raised.value, "starting"), TransactionTimeoutRefused)


def change(broker: EmbeddedBroker, topic: str, config: dict[str, str]) -> None:
    """Change these settings of a topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(HANG_SECONDS)


def test_a_topic_made_again_has_another_uuid_and_one_that_is_gone_is_told(
    broker: EmbeddedBroker, streams: CreateStream
) -> None:
    created = streams()
    stream, output = load_manifest(created.manifest), created.output_topic
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    cluster = Cluster(broker.bootstrap_servers)
    before = cluster.partition_state(stream, 0)
    admin.delete_topics([output])[output].result(HANG_SECONDS)
    wait_for(lambda: cluster.topic(output) is None, "the broker has heard that it is gone")
    with pytest.raises(TopicMissing):
        cluster.partition_state(stream, 0)
    cluster.ensure_output(stream)
    after = cluster.partition_state(stream, 0)
    assert after.input_topic_id == before.input_topic_id
    assert after.output_topic_id != before.output_topic_id
