"""The topic state that validates copies of a store, from a real broker."""

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from dedupe_crds.manifest import load_manifest
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import TopicMissing
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.checker.record import Message
from tests.support.patience import wait_for
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
    admin.delete_records([cut])[cut].result(15)
    cluster = Cluster(broker.bootstrap_servers)
    state, empty = cluster.partition_state(stream, 1), cluster.partition_state(stream, 0)
    assert (state.low, state.end) == (4, 10)
    assert (empty.low, empty.end) == (0, 0)
    assert state.input_topic_id == empty.input_topic_id != state.output_topic_id


def test_a_topic_made_again_has_another_uuid_and_one_that_is_gone_is_told(
    broker: EmbeddedBroker, streams: CreateStream
) -> None:
    created = streams()
    stream, output = load_manifest(created.manifest), created.output_topic
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    cluster = Cluster(broker.bootstrap_servers)
    before = cluster.partition_state(stream, 0)
    admin.delete_topics([output])[output].result(15)
    wait_for(lambda: cluster.topic(output) is None, "the broker has heard that it is gone")
    with pytest.raises(TopicMissing):
        cluster.partition_state(stream, 0)
    cluster.ensure_output(stream)
    after = cluster.partition_state(stream, 0)
    assert after.input_topic_id == before.input_topic_id
    assert after.output_topic_id != before.output_topic_id
