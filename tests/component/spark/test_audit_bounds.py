"""The audit of real topics whose input or output does not begin with the first record."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.jobs.audit import AuditResult, audit
from dedupe_pipeline.jobs.audit.bounds import Bounds, parse_span
from dedupe_pipeline.jobs.audit.excuses import EXCUSES
from dedupe_pipeline.jobs.audit.ranges import ranges_to_audit
from dedupe_pipeline.jobs.audit.result import PartitionAudit
from dedupe_pipeline.jobs.audit.verdicts import DEFECTS
from tests.support.checker.record import Message
from tests.support.fixtures import CreateStream
from tests.support.patience import HANG_SECONDS
from tests.support.spark.session import spark
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import START_MS, order, produce_in_transaction

__all__ = ["spark"]

SEED = 11
HOUR = 3_600_000


def at(number: int, *, hour: int, attempt: int = 0) -> Message:
    return replace(order(SEED, number, attempt=attempt), timestamp_ms=START_MS + hour * HOUR)


# Orders 0 to 9 come early, 10 to 19 late, and with these a repeat of an early one, as it was and with another attempt.
EARLY = [at(number, hour=number) for number in range(10)]
LATE = [at(number, hour=100 + number) for number in range(10, 20)]
REPEATS = [EARLY[4], at(3, hour=115, attempt=1)]
RAW = [*EARLY, REPEATS[0], *LATE[:5], REPEATS[1], *LATE[5:]]
CLEAN = [*EARLY, *LATE]
CUT = len(EARLY)


def filled(
    stream: TestStream, clean: Sequence[Message], raw: Sequence[Message] = RAW
) -> TestStream:
    stream.send(raw)
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, clean, commit=True)
    return stream


def in_partition(partition: int, messages: Sequence[Message]) -> list[Message]:
    """Return the messages in a partition, with ids of its own."""
    return [
        replace(each, partition=partition, key=b"%d/%b" % (partition, each.key or b""))
        for each in messages
    ]


def filled_partitions(streams: CreateStream, cleans: Sequence[Sequence[Message]]) -> TestStream:
    """Send RAW to each partition, and one of `cleans` to its output."""
    return filled(
        streams(partitions=len(cleans)),
        [m for number, clean in enumerate(cleans) for m in in_partition(number, clean)],
        [m for number in range(len(cleans)) for m in in_partition(number, RAW)],
    )


def delete_before(stream: TestStream, topic: str, offsets: Mapping[int, int]) -> None:
    """Delete the oldest records of partitions, as retention does."""
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    for done in admin.delete_records(
        [TopicPartition(topic, *at) for at in offsets.items()]
    ).values():
        done.result(HANG_SECONDS)


def judged(spark: SparkSession, stream: TestStream, bounds: Bounds | None = None) -> AuditResult:
    return audit(spark, load_manifest(stream.manifest), bounds=bounds or Bounds())


def counts(result: PartitionAudit) -> dict[str, int]:
    names = (*DEFECTS, *EXCUSES)
    return {name: getattr(result, name) for name in names if getattr(result, name)}


def without(number: int) -> list[Message]:
    return [message for message in CLEAN if message.key != order(SEED, number).key]


def since(hour: int) -> Bounds:
    return Bounds(since=datetime.fromtimestamp((START_MS + hour * HOUR) / 1000, UTC))


def test_deleted_records_excuse_their_twins_and_nothing_else(
    spark: SparkSession, streams: CreateStream
) -> None:
    """Of partitions 0 and 1 the old input was deleted, of 2 and 3 the old output; 1 and 3 have defects."""
    of_each_defect = [*without(15), at(40, hour=1), REPEATS[1]]
    stream = filled_partitions(streams, [CLEAN, of_each_defect, CLEAN, without(15)])
    delete_before(stream, stream.input_topic, {0: CUT, 1: CUT})
    delete_before(stream, stream.output_topic, {2: CUT, 3: CUT})
    defects = {"lost": 1, "foreign": 1, "duplicated": 1}

    result = judged(spark, stream)
    bounded = judged(spark, stream, since(100))

    # The output of 9, because order 4 is in the input again. The input of 10 and the repeat of order 4, which stands
    # before the first one whose output is there.
    assert [counts(each) for each in result.partitions] == [
        {"before_input": 9},
        {"before_input": 9, **defects},
        {"before_output": 11},
        {"before_output": 11, "lost": 1},
    ]
    assert [each.raw_records for each in result.partitions] == [len(RAW) - CUT] * 2 + [len(RAW)] * 2
    # Without the repeat that equals order 4, so that one is of before as well.
    assert [counts(each) for each in bounded.partitions[:2]] == [
        {"before_input": 10},
        {"before_input": 10, **defects},
    ]


def test_offsets_bound_what_is_judged_at_both_ends(
    spark: SparkSession, streams: CreateStream
) -> None:
    stream = filled_partitions(streams, [without(18)] * 2)
    spans = dict(map(parse_span, (f"0:{CUT}-17", f"{stream.input_topic}/1:17-")))

    before, after = judged(spark, stream, Bounds(spans=spans)).partitions

    assert (before.defects, before.judged_records) == (0, 7)
    assert counts(after)["lost"] == 1
    with pytest.raises(RequestRefused, match="no input has that partition"):
        judged(spark, stream, Bounds(spans=dict([parse_span("2:0-5")])))


def test_a_time_after_all_records_leaves_nothing_to_read(streams: CreateStream) -> None:
    stream = load_manifest(filled(streams(), CLEAN).manifest)

    ranges = ranges_to_audit(
        KafkaConnection.of(stream), stream, up_to_committed=False, bounds=since(1_000)
    )

    assert [each.lows for each in ranges.raw] == [each.ends for each in ranges.raw]


def test_a_table_may_forget_only_as_many_as_its_size_says(
    spark: SparkSession, streams: CreateStream
) -> None:
    """Of repeats that come at once a table of 65,536 slots forgets hardly any."""
    table = {"store": {"type": "InverseBloom", "inverseBloom": {"slots": 65_536}}}
    raw = [message for message in CLEAN for _ in range(2)]

    one, all_of_them = (
        judged(spark, filled(streams(**table), clean, raw)) for clean in ([CLEAN[0], *CLEAN], raw)
    )

    assert counts(one.total) == {"forgotten": 1}
    assert counts(all_of_them.total) == {"duplicated": len(CLEAN)}
    assert "of this size forgets" in all_of_them.warnings[0]
