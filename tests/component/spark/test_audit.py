"""The audit of real topics reports each seeded defect, and nothing else."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_kafka.errors import BrokerUnavailable, TopicMissing
from dedupe_pipeline.errors import NothingCommitted
from dedupe_pipeline.jobs.audit import AuditResult, Outcome, audit
from dedupe_pipeline.jobs.audit.result import PartitionAudit
from dedupe_pipeline.jobs.audit.verdicts import DEFECTS
from tests.support.checker import id_sources
from tests.support.checker.record import Message
from tests.support.fixtures import CreateStream
from tests.support.layers import matrix
from tests.support.patience import HANG_SECONDS
from tests.support.spark.session import LOCAL, spark
from tests.support.traffic import hostile
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import (
    START_MS,
    Sender,
    order,
    produce_in_transaction,
    retries,
)

__all__ = ["spark"]

PARTITIONS = 2
SEED = 3


def without_repeats(messages: Sequence[Message]) -> list[Message]:
    """Return the expected clean topic: the first of each key, and those without key."""
    seen: set[tuple[int, bytes]] = set()
    passed = []
    for message in messages:
        identity = (message.partition, message.key or b"")
        if not message.key or identity not in seen:
            passed.append(message)
        seen.add(identity)
    return passed


def without_key(number: int) -> Message:
    return replace(order(SEED, number, partitions=PARTITIONS), key=None)


# Messages 0 to 59 with repeats among them, then a pair without ids that is the same twice.
RAW = [*retries(SEED, 60, partitions=PARTITIONS), without_key(2), without_key(1), without_key(2)]
CLEAN = without_repeats(RAW)


def filled(stream: TestStream, raw: Sequence[Message], clean: Sequence[Message]) -> TestStream:
    """Fill both topics; the clean topic as a worker does, after an aborted attempt."""
    stream.send(raw)
    for commit in (False, True):
        produce_in_transaction(stream.bootstrap_servers, stream.output_topic, clean, commit=commit)
    return stream


def judged(
    spark: SparkSession, stream: TestStream, *, up_to_committed: bool = False
) -> AuditResult:
    return audit(spark, load_manifest(stream.manifest), up_to_committed=up_to_committed)


def defects(*counts: PartitionAudit) -> dict[str, int]:
    """Return the counts of defects that are not 0."""
    sums = {name: sum(getattr(partition, name) for partition in counts) for name in DEFECTS}
    return {name: count for name, count in sums.items() if count}


def lose_one(clean: list[Message]) -> list[Message]:
    return clean[:7] + clean[8:]


def send_one_twice(clean: list[Message]) -> list[Message]:
    return [*clean, clean[4]]


def alter_a_header(clean: list[Message]) -> list[Message]:
    altered = replace(clean[5], headers=(*clean[5].headers[:-1], ("source", b"web ")))
    return [*clean[:5], altered, *clean[6:]]


def swap_two_headers(clean: list[Message]) -> list[Message]:
    return [*clean[:5], replace(clean[5], headers=clean[5].headers[::-1]), *clean[6:]]


def shift_the_time(clean: list[Message]) -> list[Message]:
    shifted = replace(clean[5], timestamp_ms=(clean[5].timestamp_ms or 0) + 1)
    return [*clean[:5], shifted, *clean[6:]]


def empty_a_value(clean: list[Message]) -> list[Message]:
    return [*clean[:5], replace(clean[5], value=None), *clean[6:]]


def swap_a_pair(clean: list[Message]) -> list[Message]:
    first, second = [i for i, message in enumerate(clean) if message.partition == 0][3:5]
    clean[first], clean[second] = clean[second], clean[first]
    return clean


def shift_a_partition(clean: list[Message]) -> list[Message]:
    shifted = replace(clean[5], partition=1 - clean[5].partition)
    return [*clean[:5], shifted, *clean[6:]]


def lose_one_without_id(clean: list[Message]) -> list[Message]:
    return clean[:-1]


def send_one_without_id_again(clean: list[Message]) -> list[Message]:
    return [*clean, clean[-1]]


def keep_the_later_copy(clean: list[Message]) -> list[Message]:
    """Replace an original by its repeat with other content."""
    kept = {message.key: message for message in clean if message.key}
    later = next(m for m in RAW if m.key and m.value != kept[m.key].value and m.partition == 0)
    position = RAW.index(later)
    before = {id(m) for m in RAW[:position]}
    passed = [m for m in clean if m.key != later.key]
    at = sum(id(m) in before for m in passed)
    return [*passed[:at], later, *passed[at:]]


def invent_one(clean: list[Message]) -> list[Message]:
    return [*clean, order(SEED, 10_000)]


SPOILED: Sequence[tuple[Callable[[list[Message]], list[Message]], dict[str, int]]] = (
    (list, {}),
    (lose_one, {"lost": 1}),
    (send_one_twice, {"duplicated": 1}),
    (alter_a_header, {"altered": 1}),
    (swap_two_headers, {"altered": 1}),
    (shift_the_time, {"altered": 1}),
    (empty_a_value, {"altered": 1}),
    (swap_a_pair, {"reordered": 1}),
    (shift_a_partition, {"lost": 1, "foreign": 1}),
    (lose_one_without_id, {"lost": 1}),
    (send_one_without_id_again, {"duplicated": 1}),
    (keep_the_later_copy, {"altered": 1}),
    (invent_one, {"foreign": 1}),
)


# No worker recognises these copies, so the clean topic has each order once in each of its partitions.
ACROSS = [
    replace(order(SEED, 20_000 + number), partition=partition)
    for number, partitions in enumerate(((0, 1), (2, 0, 1, 1), (2,)))
    for partition in partitions
]


@pytest.mark.proof
def test_a_seeded_defect_is_told_and_nothing_else(
    spark: SparkSession, streams: CreateStream
) -> None:
    """Run one audit for all cases; each case has its own pair of partitions, and its own ids."""

    def moved(messages: Sequence[Message], case: int) -> list[Message]:
        return [
            replace(
                m,
                partition=m.partition + PARTITIONS * case,
                key=m.key and b"%d/%b" % (case, m.key),
            )
            for m in messages
        ]

    cases = range(len(SPOILED))
    across = moved(ACROSS, len(SPOILED))
    stream = filled(
        streams(partitions=PARTITIONS * len(SPOILED) + 3),
        [*(message for case in cases for message in moved(RAW, case)), *across],
        [
            *(m for case in cases for m in moved(SPOILED[case][0](list(CLEAN)), case)),
            *without_repeats(across),
        ],
    )

    result = judged(spark, stream)

    reported = {
        spoil.__name__: defects(*result.partitions[PARTITIONS * case : PARTITIONS * (case + 1)])
        for case, (spoil, _) in enumerate(SPOILED)
    }
    assert reported == {spoil.__name__: expected for spoil, expected in SPOILED}
    assert not result.is_clean
    assert len(result.examples) == result.total.defects
    of_across = result.partitions[PARTITIONS * len(SPOILED) :]
    assert defects(*of_across) == {"duplicated": 3}
    assert sum(each.duplicated_in_another_partition for each in of_across) == 3
    assert sum(each.repeats_in_another_partition for each in of_across) == 3
    assert sum(each.unique_ids for each in of_across) == 3
    assert sum(each.repeats for each in of_across) == 4
    assert sum(each.removed for each in of_across) == 1
    shown = [found for found in result.examples if found.other_partition is not None]
    assert len(shown) == 3
    assert all(found.other_partition != found.partition for found in shown)


def test_records_are_counted_and_repeats_have_a_delay_and_a_distance_to_their_first_copy(
    spark: SparkSession, streams: CreateStream
) -> None:
    """Count records, not offsets: the clean topic has an aborted attempt and markers, too."""
    first, other = order(SEED, 0), order(SEED, 1)
    later = [replace(first, timestamp_ms=START_MS + after) for after in (5, 2_000)]
    without_id = replace(order(SEED, 2), key=None)
    raw = [
        *(replace(first, timestamp_ms=START_MS), other, later[0], other, later[1]),
        *(without_id, without_id),
    ]
    stream = filled(streams(), raw, without_repeats(raw))

    result = judged(spark, stream)

    assert defects(result.total) == {}
    assert (result.total.raw_records, result.total.clean_records) == (7, 4)
    assert (result.total.unique_ids, result.total.without_id) == (2, 2)
    assert result.total.removed == result.total.repeats == 3
    assert result.duplicate_rate == 3 / 7
    assert sum(part.raw for part in result.timeline) == 7
    assert sum(part.clean for part in result.timeline) == 4
    assert (result.delay.p50, result.delay.maximum) == (5, 2_000)
    assert (result.distance.p50, result.distance.maximum) == (2, 4)
    assert sum(part.records for part in result.delay.bins) == 3
    assert [(part.low <= 2_000 < part.high) for part in result.delay.bins] == [False, False, True]


def test_a_running_stream_is_judged_up_to_what_it_has_committed(
    spark: SparkSession, streams: CreateStream
) -> None:
    """Partition 0 is committed up to 7, 1 not at all; what belongs to 2 is in an open transaction."""
    stream = streams(partitions=3)
    first, uncommitted, open_ = (
        [replace(order(SEED, number), partition=partition) for number in numbers]
        for partition, numbers in enumerate((range(10), range(10, 13), range(13, 15)))
    )
    stream.send([*first, *uncommitted, *open_])
    # Number 6 is lost: it is committed as processed, and not in the clean topic.
    commit_like_a_worker(stream, first[:6], {0: 7, 2: len(open_)})
    # One that is ahead of what was committed when the audit looked, as in a running stream.
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, first[7:8], commit=True)
    sender = Sender(
        stream.bootstrap_servers, stream.output_topic, transactional_id=f"{stream.name}-open"
    )
    for message in open_:
        sender.send(message)
    sender.flush()
    closing = Timer(1.0, sender.end_transaction, kwargs={"commit": True})
    closing.start()

    running = judged(spark, stream, up_to_committed=True)
    closing.join()
    ended = judged(spark, stream)

    assert running.total.clean_records == 6 + 1 + len(open_)
    assert [each.pending for each in running.partitions] == [3, len(uncommitted), 0]
    assert running.total.judged_records == 7 + len(open_)
    assert [defects(each) for each in running.partitions] == [{"lost": 1}, {}, {}]
    assert [example.raw_offset for example in running.examples] == [6]
    [warning] = running.warnings
    assert f"{stream.input_topic}/1" in warning
    assert [defects(each) for each in ended.partitions] == [{"lost": 3}, {"lost": 3}, {}]


def commit_like_a_worker(
    stream: TestStream, passed: Sequence[Message], next_offsets: Mapping[int, int]
) -> None:
    producer = Producer(
        {"bootstrap.servers": stream.bootstrap_servers, "transactional.id": stream.name}
    )
    consumer = Consumer({"bootstrap.servers": stream.bootstrap_servers, "group.id": stream.group})
    producer.init_transactions(30)
    producer.begin_transaction()
    for message in passed:
        producer.produce(
            stream.output_topic,
            message.value,
            message.key,
            partition=message.partition,
            headers=list(message.headers),
            timestamp=message.timestamp_ms or 0,
        )
    places = [TopicPartition(stream.input_topic, *each) for each in next_offsets.items()]
    producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata())
    producer.commit_transaction(30)
    consumer.close()


def test_a_group_without_offsets_is_refused_with_what_to_do(
    spark: SparkSession, streams: CreateStream
) -> None:
    """As of a manifest without a namespace, whose stream is in another one than the default."""
    stream = filled(streams(partitions=PARTITIONS), RAW, CLEAN)

    with pytest.raises(
        NothingCommitted, match=rf"group {stream.group} has .*'default'.*--namespace"
    ):
        judged(spark, stream, up_to_committed=True)


def test_with_nothing_in_the_topics_nothing_is_judged(
    spark: SparkSession, streams: CreateStream
) -> None:
    """Also up to what is committed: a group without offsets is right there."""
    stream = streams(partitions=PARTITIONS)

    result = judged(spark, stream, up_to_committed=True)

    assert result.outcome is Outcome.NOTHING_JUDGED
    assert not result.is_clean
    assert [partition.partition for partition in result.partitions] == [0, 1]
    assert (result.total.raw_records, result.timeline, result.delay.p50) == (0, (), None)


HOSTILE = list(hostile.hostile(SEED, 600, partitions=PARTITIONS))


@pytest.mark.parametrize(
    ("id_source", "id_of"),
    [
        matrix({"from": "Key"}, id_sources.key_id),
        matrix({"from": "Header", "name": "message-id"}, id_sources.header_id("message-id")),
        ({"from": "JsonPath", "path": "$.order.id"}, id_sources.json_id("order", "id")),
        matrix({"from": "Content"}, id_sources.content_id),
    ],
    ids=lambda given: given["from"] if isinstance(given, dict) else "",
)
def test_hostile_records_are_told_apart_as_the_manifest_says(
    spark: SparkSession,
    streams: CreateStream,
    id_source: dict[str, str],
    id_of: id_sources.IdOf,
) -> None:
    seen = set()
    clean = []
    for message in HOSTILE:
        identity = (message.partition, id_of(message))
        if identity[1] is None or identity not in seen:
            clean.append(message)
        seen.add(identity)
    without_id = sum(id_of(message) is None for message in HOSTILE)
    places = {identity for identity in seen if identity[1] is not None}
    across = len(places) - len({identity for _, identity in places})
    stream = filled(streams(partitions=PARTITIONS, id=id_source), HOSTILE, clean)

    result = judged(spark, stream)

    assert defects(result.total) == ({"duplicated": across} if across else {})
    assert result.total.duplicated_in_another_partition == across
    assert result.total.without_id == without_id
    assert result.total.removed == len(HOSTILE) - len(clean)


def test_a_stream_that_only_observes_has_to_pass_every_copy(
    spark: SparkSession, streams: CreateStream
) -> None:
    """The clean topic lacks a copy in partitions 0 and 1; 2 and 3 have copies of one order."""
    across = [replace(order(SEED, 1_000), partition=partition) for partition in (2, 3)]
    stream = filled(
        streams(partitions=4, mode="Observe"),
        [*RAW, *across],
        [*RAW[:30], *RAW[31:], *across],
    )

    result = judged(spark, stream)

    # The later copies of a message move up by one place: so the last copy is missing.
    assert [sum(each.lost for each in result.partitions[at : at + 2]) for at in (0, 2)] == [1, 0]
    assert defects(*result.partitions[2:]) == {}
    assert result.total.removed == result.total.duplicated == 0
    assert result.total.repeats_in_another_partition == 1
    assert len(result.advice) == 1


def test_a_broker_that_is_not_there_is_told_in_bounded_time(
    spark: SparkSession, streams: CreateStream
) -> None:
    stream = load_manifest(streams().manifest)

    with pytest.raises(BrokerUnavailable, match=r"on 127\.0\.0\.1:9: "):
        audit(spark, stream, bootstrap_servers="127.0.0.1:9")


def test_a_topic_that_is_not_there_is_named(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    given = streams()
    text = given.manifest.read_text().replace(given.output_topic, "never-made")
    (tmp_path / "broken.yaml").write_text(text)

    with pytest.raises(TopicMissing, match="describing topic never-made on "):
        audit(spark, load_manifest(tmp_path / "broken.yaml"))


def test_the_command_ends_with_1_and_writes_page_and_json(
    streams: CreateStream, tmp_path: Path
) -> None:
    stream = filled(streams(partitions=PARTITIONS), RAW, lose_one(list(CLEAN)))
    page, document = tmp_path / "audit.html", tmp_path / "audit.json"

    ended = run_audit(stream, "--html", str(page), "--json", str(document))

    assert ended.returncode == 1, ended.stderr
    assert "1 defect; judged 63 of 63 input records" in " ".join(ended.stdout.split())
    assert json.loads(document.read_text())["total"]["lost"] == 1
    assert "<svg" in page.read_text()


@pytest.mark.matrix  # the one that finds defects stands for the command
def test_the_command_tells_nothing_judged_and_a_wrong_namespace_from_defects(
    streams: CreateStream,
) -> None:
    empty, stream = streams(), filled(streams(partitions=PARTITIONS), RAW, CLEAN)

    nothing = run_audit(empty)
    wrong = run_audit(stream, "--up-to-committed", "--namespace", "shop")

    assert nothing.returncode == 4, nothing.stderr
    assert "nothing was judged" in nothing.stdout
    assert wrong.returncode == 2, wrong.stderr
    assert f"group shop.{stream.name} has committed no offset" in wrong.stderr


def run_audit(stream: TestStream, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "dedupe_pipeline", "audit", str(stream.manifest), *options),
            *LOCAL,
        ],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
