"""The audit of several real inputs, whose copies of an id meet in one output partition."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.audit import AuditResult, audit
from dedupe_pipeline.jobs.audit.ranges import Ranges, ranges_to_audit
from dedupe_pipeline.jobs.audit.report import html_page
from dedupe_pipeline.jobs.audit.verdicts import DEFECTS
from tests.conftest import CreateTopic
from tests.support.checker.record import Message
from tests.support.fixtures import HOLDS_ANYTHING, CreateStream
from tests.support.spark.session import spark
from tests.support.traffic.streams import stream_manifest
from tests.support.traffic.traffic import order, produce, produce_in_transaction

__all__ = ["spark"]

SEED = 5
OUTPUTS = 3


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A stream with two inputs, of 2 and of 3 partitions."""

    stream: DedupeStream
    eu: str
    us: str

    @property
    def servers(self) -> str:
        return self.stream.spec.kafka.bootstrap_servers

    def send(self, topic: str, messages: Sequence[Message]) -> None:
        produce(self.servers, topic, messages)

    def route(self, messages: Sequence[Message]) -> None:
        """Write to the repartition topic as routers do, in a transaction."""
        topic = self.stream.spec.worker_input
        produce_in_transaction(self.servers, topic, messages, commit=True)

    def output(self, messages: Sequence[Message]) -> None:
        topic = self.stream.spec.output.topic
        produce_in_transaction(self.servers, topic, messages, commit=True)

    def commit(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    def ranges(self, within: timedelta = timedelta(0)) -> Ranges:
        connection = KafkaConnection.of(self.stream)
        return ranges_to_audit(connection, self.stream, up_to_committed=True, within=within)


@pytest.fixture
def scene(broker: EmbeddedBroker, topics: CreateTopic, tmp_path: Path) -> Callable[..., Scene]:
    """Create a scene; with `pattern`, its inputs are the topics of a pattern that its other topics match too."""

    def create(*, pattern: bool = False) -> Scene:
        tag = f"t{uuid4().hex[:8]}"
        eu, us = (
            topics(f"{tag}-{name}", count, **HOLDS_ANYTHING)
            for name, count in (("eu", 2), ("us", 3))
        )
        clean, between = (
            topics(f"{tag}-{name}", OUTPUTS, **HOLDS_ANYTHING) for name in ("clean", "between")
        )
        found = stream_manifest(
            tmp_path,
            broker.bootstrap_servers,
            tag,
            clean,
            input={"pattern": f"{tag}-.*"} if pattern else {"topics": [eu, us]},
            repartition={"partitions": OUTPUTS, "topic": {"name": between}},
        )
        return Scene(stream=load_manifest(found.manifest), eu=eu, us=us)

    return create


def defects(result: AuditResult) -> dict[str, int]:
    return {name: getattr(result.total, name) for name in DEFECTS if getattr(result.total, name)}


def at(partition: int, number: int, *, attempt: int = 0, key: bytes | None = None) -> Message:
    """An order in a partition, whose id is in a header; by default without a key."""
    found = order(SEED, number, attempt=attempt)
    return replace(found, partition=partition, key=key)


def with_headers(found: Scene) -> Scene:
    spec = found.stream.spec
    source = {"from": "Header", "name": "message-id"}
    document = spec.model_dump(mode="json", by_alias=True, exclude_none=True) | {"id": source}
    return replace(
        found,
        stream=found.stream.model_copy(update={"spec": type(spec).model_validate(document)}),
    )


# Orders 0 to 5 go to the first input and repeats of 3 to 7 to the second, all without keys and to any partition.
EU = [at(number % 2, number) for number in range(6)]
US = [at((number + 1) % 3, number, attempt=number % 2) for number in range(3, 8)]
# Each where its id belongs; which copy of 3 to 5 comes first is open.
CLEAN = [
    *(at(number * 7 % OUTPUTS, number) for number in (0, 1, 2, 4)),
    *(at(number * 7 % OUTPUTS, number, attempt=number % 2) for number in (3, 5, 6, 7)),
]


@pytest.mark.matrix  # one that is missing and one that comes twice
def test_unkeyed_copies_in_two_inputs_are_one_message_each(
    spark: SparkSession, scene: Callable[..., Scene]
) -> None:
    right = with_headers(scene(pattern=True))
    right.send(right.eu, EU)
    right.send(right.us, US)
    right.output(CLEAN)

    result = audit(spark, right.stream)

    assert defects(result) == {}
    total = result.total
    assert (total.raw_records, total.clean_records) == (11, 8)
    assert (total.unique_ids, total.repeats, total.removed) == (8, 3, 3)
    assert [each.partition for each in result.partitions] == [0, 1, 2]
    assert result.raw_topic.startswith("/")


def test_one_that_is_missing_and_one_that_comes_twice_are_told_with_their_places(
    spark: SparkSession, scene: Callable[..., Scene]
) -> None:
    wrong = with_headers(scene())
    wrong.send(wrong.eu, EU)
    wrong.send(wrong.us, US)
    twice = replace(CLEAN[0], partition=(CLEAN[0].partition + 1) % OUTPUTS)
    wrong.output([*CLEAN[:-1], twice])

    result = audit(spark, wrong.stream)

    assert defects(result) == {"lost": 1, "duplicated": 1}
    lost, duplicated = result.examples
    assert (lost.verdict, lost.origin, lost.raw_offset) == ("lost", f"{wrong.us}/2", 1)
    assert lost.partition is None
    assert (duplicated.verdict, duplicated.partition) == ("duplicated", 1)
    assert duplicated.other_partition == 0
    assert [each.partition for each in result.partitions] == [0, 1, 2, None]
    routes, content = result.advice
    assert "routers" in routes
    assert "another key or value" in content, "of a second attempt"
    assert json.loads(result.to_json())["partitions"][-1]["partition"] is None
    assert f"{wrong.us}/2: 1" in html_page(result)


def test_messages_that_share_their_id_with_another_topic_are_counted_apart(
    spark: SparkSession, scene: Callable[..., Scene]
) -> None:
    """Both topics number their records from 1; and 3 is sent again, at another time."""
    found = scene()
    orders, returns = (
        [
            replace(at(0, number, key=b"%d" % number), value=b"%s %d" % (kind, number), headers=())
            for number in range(1, 5)
        ]
        for kind in (b"order", b"return")
    )
    again = replace(orders[2], timestamp_ms=(orders[2].timestamp_ms or 0) + 1)
    found.send(found.eu, [*orders, again])
    found.send(found.us, returns)
    found.output(orders)

    result = audit(spark, found.stream)

    assert defects(result) == {}
    assert (result.total.removed, result.total.removed_with_other_content) == (5, 4)
    assert json.loads(result.to_json())["total"]["removedWithOtherContent"] == 4
    assert "4 of the 5 removed records have another key or value" in result.advice[0]
    assert "4 removed with another content" in html_page(result)


def test_a_record_that_the_routers_have_not_committed_is_pending(
    spark: SparkSession, scene: Callable[..., Scene]
) -> None:
    running = with_headers(scene())
    running.send(running.eu, EU)
    running.send(running.us, US)
    running.output(CLEAN[:2])
    # Orders 0, 2 and 4, 1 and 3 are routed. So 2 to 4 are lost, also those whose other copy may not be routed yet.
    running.commit(running.stream.router_group, {(running.eu, 0): 3, (running.eu, 1): 2})

    result = audit(spark, running.stream, up_to_committed=True)

    assert defects(result) == {"lost": 3}
    assert result.total.pending == 1 + len(US)
    assert {found.origin for found in result.examples} == {f"{running.eu}/0", f"{running.eu}/1"}


def test_what_waits_between_routers_and_workers_is_waited_for(scene: Callable[..., Scene]) -> None:
    running = scene()
    between, group = running.stream.spec.worker_input, running.stream.consumer_group
    running.route([at(0, 0), at(0, 1), at(2, 2)])

    with pytest.raises(
        PipelineError, match=rf"of {between} are not processed .*partition 0: 3, partition 2: 2\)"
    ):
        running.ranges()
    running.commit(group, {(between, 0): 2})
    with pytest.raises(PipelineError, match=r"lag behind the routers: 2 offsets .*Wait until"):
        running.ranges()
    # The markers of the transaction, at the end of both partitions, are never committed.
    running.commit(group, {(between, 2): 1})
    found = running.ranges()

    assert [each.topic for each in found.raw] == sorted([running.eu, running.us])
    assert set(found.judged_before.values()) == {0}


def test_a_pattern_that_no_topic_matches_is_told(scene: Callable[..., Scene]) -> None:
    found = scene(pattern=True)
    pattern = {"pattern": "no-such-topic-.*"}
    document = found.stream.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    spec = type(found.stream.spec).model_validate(document | {"input": pattern})

    with pytest.raises(
        PipelineError, match=r"no topic .* matches spec.input.pattern 'no-such-topic"
    ):
        replace(found, stream=found.stream.model_copy(update={"spec": spec})).ranges()


def test_messages_in_the_topic_for_late_ones_are_not_lost(
    spark: SparkSession, streams: CreateStream, topics: CreateTopic
) -> None:
    """Also without a repartition: order 1 is late, then a copy in time passes; 3 is lost."""
    late = topics("late", 1, **HOLDS_ANYTHING)
    stream = streams(late={"policy": "Topic", "topic": late})
    raw = [order(SEED, number) for number in range(4)]
    again = replace(raw[1], timestamp_ms=(raw[1].timestamp_ms or 0) + 3_600_000)
    stream.send([*raw, again])
    produce_in_transaction(
        stream.bootstrap_servers, stream.output_topic, [raw[0], again], commit=True
    )
    added = ((b"dedupe-late", b"1"), (b"dedupe-position", b"0:1"))
    headers = tuple((name.decode(), value) for name, value in added)
    routed = [replace(raw[n], headers=(*raw[n].headers, *headers)) for n in (1, 2)]
    # The topic is shared with duplicates, which are no late messages.
    repeat = replace(raw[3], headers=(*raw[3].headers, ("dedupe-original", b"0:3"), headers[1]))
    produce(stream.bootstrap_servers, late, [*routed, repeat])

    result = audit(spark, load_manifest(stream.manifest))

    assert defects(result) == {"lost": 1}
    assert [found.raw_offset for found in result.examples] == [3]
    assert (result.total.late, result.total.unique_ids, result.total.repeats) == (2, 3, 0)
    assert json.loads(result.to_json())["total"]["late"] == 2
