"""Routers as processes: what they show, what stops them, what they follow."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import yaml
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its documented names
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.router import RouterPhase
from dedupe_kafka.cluster import Cluster
from tests.support.checker.id_sources import content_id, key_id
from tests.support.checker.record import Message
from tests.support.checker.repartitioned import judge_repartitioned
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.processes.processes import Workers
from tests.support.processes.routers import RoutedStream, Routers
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., RoutedStream]


def messages(count: int, *, partition: int = 0, first: int = 0, size: int = 10) -> list[Message]:
    return [Message(partition, b"%d" % (first + n), b"v" * size) for n in range(count)]


def test_a_record_larger_than_the_whole_queue_is_routed(
    routed_streams: CreateStream, routers: Routers
) -> None:
    stream = routed_streams(inputs=(1,), worker={"tuning": {"queueBytes": "1Mi"}})
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    for topic in (*stream.inputs, stream.input_topic):
        _set(admin, topic, "max.message.bytes", str(10 << 20))
    router = routers.start(stream)
    router.wait_until_ready()
    sent = [*messages(20), *messages(2, first=20, size=5 << 20), *messages(20, first=22)]
    stream.send_to(stream.inputs[0], sent)
    stream.wait_until_routed()
    sizes = {record.key: len(record.value or b"") for record in stream.raw()}
    assert sizes == {message.key: len(message.value or b"") for message in sent}
    assert len(stream.raw()) == len(sent)


def test_it_shows_its_state_over_http(routed_streams: CreateStream, routers: Routers) -> None:
    stream = routed_streams(inputs=(1,))
    router = routers.start(stream)
    router.wait_until_ready()
    stream.send_to(stream.inputs[0], messages(5))
    stream.wait_until_routed()
    status = router.status()
    assert (status.stream, status.router, status.phase) == (
        f"default/{stream.name}",
        0,
        RouterPhase.RUNNING,
    )
    assert status.counts.routed == 5
    metrics = router.get("/metrics").text
    assert "dedupe_router_records_routed_total" in metrics
    assert f'dedupe_router_ready{{router="0",stream="default/{stream.name}"}} 1.0' in metrics
    assert router.get("/healthz").status_code == 200
    assert router.get("/lookup").status_code == 404
    assert router.sigterm() == 0


def test_a_router_without_partitions_is_ready(
    routed_streams: CreateStream, routers: Routers
) -> None:
    stream = routed_streams(inputs=(1,))
    both = [routers.start(stream, number) for number in range(2)]
    for router in both:
        router.wait_until_ready()


@pytest.mark.parametrize("delivery", ["ExactlyOnce", "AtLeastOnce"])
def test_a_record_that_is_too_large_stops_its_partition_alone(
    routed_streams: CreateStream, routers: Routers, delivery: str
) -> None:
    stream = routed_streams(inputs=(2,), delivery=delivery)
    (raw,) = stream.inputs
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    _set(admin, stream.input_topic, "max.message.bytes", "20000")
    stream.send_to(raw, [*messages(50), Message(0, b"large", Random(1).randbytes(50_000))])
    stream.send_to(raw, messages(50, first=100))
    router = routers.start(stream)
    router.wait_until(lambda: router.status().reason == "RecordTooLarge", "the record is named")
    stream.send_to(raw, messages(500, partition=1, first=1000))
    router.wait_until(lambda: stream.routed()[raw].get(1) == 500, "the other partition goes on")
    status = router.status()
    assert f"record {raw}/0 at offset 50" in (status.message or "")
    assert not status.ready
    assert stream.routed()[raw].get(0) == 50
    _set(admin, stream.input_topic, "max.message.bytes", "2000000")
    stream.wait_until_routed()
    router.wait_until_ready()


def test_it_pauses_at_the_limit_until_the_workers_have_read(
    routed_streams: CreateStream,
    routers: Routers,
    workers: Workers,
) -> None:
    stream = routed_streams(inputs=(1,), partitions=1, repartition={"topic": {"maxBytes": "1Mi"}})
    (raw,) = stream.inputs
    stream.send_to(raw, messages(200, size=10_000))
    router = routers.start(stream)
    router.wait_until(
        lambda: router.status().reason == "RepartitionTopicFull", "it has reached the limit"
    )
    assert router.status().phase is RouterPhase.PAUSED
    stream.send_to(raw, messages(50, first=1000))
    worker = workers.start(stream)
    stream.wait_until_routed()
    router.wait_until_ready()
    stream.wait_until_read([worker])
    judge_repartitioned(stream.raws(), stream.clean(), key_id).assert_exactly_once(250)
    assert min(record.offset for record in stream.raw()) >= 200  # what is read is deleted


def test_a_topic_that_appears_under_a_pattern_is_read(
    routed_streams: CreateStream, routers: Routers, topics: Callable[..., str]
) -> None:
    stream = routed_streams(inputs=(1,))
    hint = f"orders-{stream.name}"
    first = topics(hint, 1)
    _change(stream.manifest, "input", {"pattern": f"{hint}-.*"})
    stream.list_inputs()
    router = routers.start(stream)
    router.wait_until_ready()
    second = f"{hint}-later"
    Cluster(stream.bootstrap_servers).create(second, 2, 1, {})
    for name in (first, second):
        stream.send_to(name, messages(10))
    router.wait_until(
        lambda: second in router.status().warnings.get("InputWaitsForEpoch", ""), "it waits"
    )
    stream.list_inputs()
    router.wait_until(lambda: router.status().counts.routed == 20, "both are routed")
    assert [each.topic for each in router.status().inputs] == sorted([first, second])
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    admin.delete_topics([second])[second].result(timeout=HANG_SECONDS)
    router.wait_until(
        lambda: second in router.status().warnings.get("InputTopicMissing", ""), "it is named"
    )
    stream.send_to(first, messages(10, first=100))
    router.wait_until(lambda: router.status().counts.routed == 30, "the other one goes on")


def test_at_least_once_routes_without_transactions(
    routed_streams: CreateStream, routers: Routers, workers: Workers
) -> None:
    stream = routed_streams(inputs=(2,), partitions=2, delivery="AtLeastOnce")
    for partition in range(2):
        stream.send_to(stream.inputs[0], messages(500, partition=partition))
    routers.start(stream)
    stream.wait_until_routed()
    started = [workers.start(stream, number) for number in range(2)]
    stream.wait_until_read(started)
    judge_repartitioned(stream.raws(), stream.clean(), key_id).assert_exactly_once(1000)


def test_by_key_keeps_the_order_of_a_key(
    routed_streams: CreateStream, routers: Routers, workers: Workers
) -> None:
    by_value = {"from": "Content"}
    stream = routed_streams(inputs=(3,), partitions=2, id=by_value, repartition={"by": "Key"})
    stream.send_to(stream.inputs[0], retries(7, 3_000, partitions=3))
    both = [routers.start(stream, number) for number in range(2)]
    stream.wait_until_routed()
    started = [workers.start(stream, number) for number in range(2)]
    stream.wait_until_read(started)
    judge_repartitioned(
        stream.raws(), stream.clean(), content_id, ordered_by=lambda record: record.key
    ).assert_exactly_once(3_000)
    assert sum(router.status().counts.routed for router in both) == 3_000


def test_a_manifest_without_repartition_is_refused(
    routed_streams: CreateStream, routers: Routers
) -> None:
    stream = routed_streams(inputs=(1,))
    _change(stream.manifest, "input", {"topic": stream.inputs[0]})
    _change(stream.manifest, "repartition", None)
    router = routers.start(stream)
    assert router.process.wait() == ExitCode.CONFIG
    assert "has no spec.repartition" in router.log()


def test_offsets_that_are_gone_stop_the_routers_by_name(
    routed_streams: CreateStream, routers: Routers
) -> None:
    stream = routed_streams(inputs=(1,))
    stream.send_to(stream.inputs[0], messages(5))
    router = routers.start(stream)
    stream.wait_until_routed()
    assert router.sigterm() == 0
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})

    def deleted() -> bool:
        group = stream.router_group
        return admin.delete_consumer_groups([group])[group].exception(timeout=HANG_SECONDS) is None

    wait_for(deleted, "the group is deleted")
    again = routers.start(stream)
    again.wait_until(lambda: again.status().reason == "RouterOffsetsLost", "the loss is named")
    assert again.status().counts.routed == 0


def _set(admin: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=HANG_SECONDS)


def _change(manifest: Path, field: str, value: object) -> None:
    document = yaml.safe_load(manifest.read_text())
    document["spec"][field] = value
    if value is None:
        del document["spec"][field]
    manifest.write_text(yaml.safe_dump(document))
