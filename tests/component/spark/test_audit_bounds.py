"""The audit of real topics whose input or output does not begin with the first record."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.jobs.audit import AuditResult, Outcome, audit
from dedupe_pipeline.jobs.audit.bounds import Bounds, parse_span
from dedupe_pipeline.jobs.audit.excuses import EXCUSES
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


def delete_before(stream: TestStream, topic: str, offset: int) -> None:
    """Delete the oldest records, as retention does."""
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    for done in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        done.result(HANG_SECONDS)


def judged(spark: SparkSession, stream: TestStream, bounds: Bounds | None = None) -> AuditResult:
    return audit(spark, load_manifest(stream.manifest), bounds=bounds or Bounds())


def counts(result: AuditResult) -> dict[str, int]:
    names = (*DEFECTS, *EXCUSES)
    return {name: getattr(result.total, name) for name in names if getattr(result.total, name)}


def without(number: int) -> list[Message]:
    return [message for message in CLEAN if message.key != order(SEED, number).key]


def since(hour: int) -> Bounds:
    return Bounds(since=datetime.fromtimestamp((START_MS + hour * HOUR) / 1000, UTC))


@pytest.mark.matrix  # the deleted output
@pytest.mark.parametrize(
    ("clean", "defects"),
    [
        (CLEAN, {}),
        (
            [*without(15), at(40, hour=1), REPEATS[1]],
            {"lost": 1, "foreign": 1, "duplicated": 1},
        ),
    ],
    ids=["healthy", "one of each defect"],
)
def test_deleted_input_excuses_its_output_and_nothing_else(
    spark: SparkSession, streams: CreateStream, clean: list[Message], defects: dict[str, int]
) -> None:
    stream = filled(streams(), clean)
    delete_before(stream, stream.input_topic, CUT)

    result = judged(spark, stream)

    assert counts(result) == {"before_input": 9, **defects}
    assert result.total.raw_records == len(RAW) - CUT
    # Without the repeat that equals order 4, so that one is of before as well.
    assert counts(judged(spark, stream, since(100))) == {"before_input": 10, **defects}


def test_deleted_output_excuses_its_input_and_nothing_else(
    spark: SparkSession, streams: CreateStream
) -> None:
    healthy, lossy = filled(streams(), CLEAN), filled(streams(), without(15))
    for stream in (healthy, lossy):
        delete_before(stream, stream.output_topic, CUT)

    # With the repeat of order 4 that stands before the first one whose output is there.
    assert counts(judged(spark, healthy)) == {"before_output": 11}
    assert counts(judged(spark, lossy)) == {"before_output": 11, "lost": 1}


def test_offsets_bound_what_is_judged_at_both_ends(
    spark: SparkSession, streams: CreateStream
) -> None:
    stream = filled(streams(), without(18))

    def part(text: str) -> AuditResult:
        return judged(spark, stream, Bounds(spans=dict([parse_span(text)])))

    before, after = part(f"0:{CUT}-17"), part(f"{stream.input_topic}/0:17-")

    assert (before.outcome, before.total.judged_records) == (Outcome.CLEAN, 7)
    assert counts(after)["lost"] == 1
    with pytest.raises(RequestRefused, match="no input has that partition"):
        part("1:0-5")


def test_a_time_after_all_records_leaves_nothing_to_judge(
    spark: SparkSession, streams: CreateStream
) -> None:
    assert judged(spark, filled(streams(), CLEAN), since(1_000)).outcome is Outcome.NOTHING_JUDGED


def test_a_table_may_forget_only_as_many_as_its_size_says(
    spark: SparkSession, streams: CreateStream
) -> None:
    """Of repeats that come at once a table of 65,536 slots forgets hardly any."""
    table = {"store": {"type": "InverseBloom", "inverseBloom": {"slots": 65_536}}}
    raw = [message for message in CLEAN for _ in range(2)]
    make: Callable[[Sequence[Message]], AuditResult] = lambda clean: judged(  # noqa: E731 (two calls of a line)
        spark, filled(streams(**table), clean, raw)
    )

    one, all_of_them = make([CLEAN[0], *CLEAN]), make(raw)

    assert counts(one) == {"forgotten": 1}
    assert counts(all_of_them) == {"duplicated": len(CLEAN)}
    assert "of this size forgets" in all_of_them.warnings[0]
