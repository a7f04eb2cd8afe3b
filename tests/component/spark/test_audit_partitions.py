"""The audit judges an id over all partitions: verdicts on small histories, without a topic."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_pipeline.jobs.audit import statistics, verdicts
from dedupe_pipeline.jobs.audit.positions import in_task
from tests.support.spark.session import spark

__all__ = ["spark"]

SCHEMA = "partition INT, offset BIGINT, time_ms BIGINT, digest BINARY, has_id BOOLEAN, ident BINARY"
OFFSETS = 100  # of each case, so that a row tells its case

Place = tuple[int, str]
"""Partition and content of a copy of the message."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The copies of one message in both topics, in order, and the expected verdicts by partition.

    A verdict of a record that is duplicated in another partition is followed by that partition.
    """

    raw: Sequence[Place]
    clean: Sequence[Place]
    expected: Sequence[tuple[int, str] | tuple[int, str, int]]
    has_id: bool = True


CASES = {
    "sent to two partitions, passed on in both": Case(
        raw=[(0, "a"), (1, "a")],
        clean=[(0, "a"), (1, "a")],
        expected=[(0, "kept"), (1, "duplicated", 0)],
    ),
    "sent to three partitions": Case(
        raw=[(2, "a"), (0, "a"), (1, "a")],
        clean=[(0, "a"), (1, "a"), (2, "a")],
        expected=[(2, "kept"), (0, "duplicated", 2), (1, "duplicated", 2)],
    ),
    "sent to two partitions with other content": Case(
        raw=[(1, "a"), (0, "b")],
        clean=[(1, "a"), (0, "b")],
        expected=[(1, "kept"), (0, "duplicated", 1)],
    ),
    "repeated within its partitions": Case(
        raw=[(0, "a"), (0, "a"), (1, "a"), (1, "a")],
        clean=[(0, "a"), (1, "a")],
        expected=[(0, "kept"), (0, "removed"), (1, "duplicated", 0), (1, "removed")],
    ),
    "passed on twice within one partition too": Case(
        raw=[(0, "a"), (1, "a"), (1, "a")],
        clean=[(0, "a"), (1, "a"), (1, "a")],
        expected=[(0, "kept"), (1, "duplicated", 0), (1, "duplicated")],
    ),
    "passed on in the later partition only": Case(
        raw=[(0, "a"), (1, "a")],
        clean=[(1, "a")],
        expected=[(0, "removed"), (1, "kept")],
    ),
    "passed on in no partition": Case(
        raw=[(0, "a"), (1, "a")],
        clean=[],
        expected=[(0, "lost"), (1, "lost")],
    ),
    "sent to one partition, written to another": Case(
        raw=[(0, "a")],
        clean=[(1, "a")],
        expected=[(0, "lost"), (1, "foreign")],
    ),
    "written to another partition too": Case(
        raw=[(1, "a")],
        clean=[(0, "a"), (1, "a")],
        expected=[(1, "kept"), (0, "duplicated", 1)],
    ),
    "never sent, written to two partitions": Case(
        raw=[],
        clean=[(1, "a"), (0, "a")],
        expected=[(1, "foreign"), (0, "duplicated", 1)],
    ),
    "altered where it is passed on first": Case(
        raw=[(0, "a"), (1, "a")],
        clean=[(0, "b"), (1, "a")],
        expected=[(0, "altered"), (1, "duplicated", 0)],
    ),
    "not processed yet in the other partition": Case(
        raw=[(3, "a"), (4, "a")],
        clean=[(3, "a")],
        expected=[(3, "kept"), (4, "pending")],
    ),
    "not processed yet in its first partition": Case(
        raw=[(4, "a"), (3, "a")],
        clean=[(3, "a")],
        expected=[(4, "pending"), (3, "kept")],
    ),
    "without an id, sent twice to one partition": Case(
        raw=[(0, "a"), (0, "a")],
        clean=[(0, "a"), (0, "a")],
        expected=[(0, "kept"), (0, "kept")],
        has_id=False,
    ),
    "without an id, equal in two partitions": Case(
        raw=[(0, "a"), (1, "a")],
        clean=[(0, "a"), (1, "a")],
        expected=[(0, "kept"), (1, "kept")],
        has_id=False,
    ),
    "without an id, missing in one of two partitions": Case(
        raw=[(0, "a"), (1, "a")],
        clean=[(0, "a")],
        expected=[(0, "kept"), (1, "lost")],
        has_id=False,
    ),
}
OBSERVED = {
    "passed on in both partitions": Case(
        raw=[(0, "a"), (0, "a"), (1, "a")],
        clean=[(0, "a"), (0, "a"), (1, "a")],
        expected=[(0, "kept"), (0, "kept"), (1, "kept")],
    ),
    "missing in one of two partitions": Case(
        raw=[(0, "a"), (1, "a")],
        clean=[(0, "a")],
        expected=[(0, "kept"), (1, "lost")],
    ),
}


def history(spark: SparkSession, cases: Mapping[str, Case]) -> DataFrame:
    """Return the raw and the clean records of the cases."""

    def rows(topic: str) -> Iterator[tuple[object, ...]]:
        for number, (name, case) in enumerate(cases.items()):
            offset = count(number * OFFSETS)
            for partition, content in getattr(case, topic):
                at = next(offset)
                digest = f"{name}/{content}".encode()
                ident = f"id of {name}".encode() if case.has_id else digest
                yield (partition, at, 1_000 + at, digest, case.has_id, ident)

    raw, clean = (
        spark.createDataFrame(list(rows(topic)), SCHEMA).withColumn("body", F.xxhash64("digest"))
        for topic in ("raw", "clean")
    )
    return verdicts.history_of(raw.withColumn("position", in_task()), clean)


def judge(history: DataFrame, before: Mapping[int, int], *, removes: bool = True) -> DataFrame:
    pairs = verdicts.pair_copies(verdicts.number_copies(history))
    compared = verdicts.compare_partitions(verdicts.mark_pending(pairs, before))
    return verdicts.add_verdicts(compared, removes=removes)


def verdict(row: Row) -> tuple[int, str] | tuple[int, str, int]:
    if row["other_partition"] is None:
        return (row["partition"], row["verdict"])
    return (row["partition"], row["verdict"], row["other_partition"])


def by_case(judged: DataFrame, cases: Mapping[str, Case]) -> dict[str, Counter[object]]:
    found: dict[str, Counter[object]] = {name: Counter() for name in cases}
    names = list(cases)
    for row in judged.collect():
        offset = row["clean_offset"] if row["raw_offset"] is None else row["raw_offset"]
        found[names[offset // OFFSETS]][verdict(row)] += 1
    return found


def expected(cases: Mapping[str, Case]) -> dict[str, Counter[object]]:
    return {name: Counter(case.expected) for name, case in cases.items()}


BEFORE = dict.fromkeys(range(4), 1 << 40) | {4: 0}
"""Of each partition the offset before which all is processed: nothing of partition 4."""


def test_a_message_is_expected_once_in_all_partitions_together(spark: SparkSession) -> None:
    judged = judge(history(spark, CASES), BEFORE)

    assert by_case(judged, CASES) == expected(CASES)


def test_a_stream_that_observes_has_to_pass_copies_in_every_partition(spark: SparkSession) -> None:
    judged = judge(history(spark, OBSERVED), BEFORE, removes=False)

    assert by_case(judged, OBSERVED) == expected(OBSERVED)


def test_a_repeat_in_another_partition_counts_once_and_has_a_delay_but_no_distance(
    spark: SparkSession,
) -> None:
    """Equal records without an id, here in partitions 2 and 3, repeat nothing."""
    cases = {
        "one": Case(raw=[(0, "a"), (1, "a"), (1, "a"), (0, "a")], clean=[(0, "a")], expected=[]),
        "no id": Case(
            raw=[(2, "a"), (3, "a")], clean=[(2, "a"), (3, "a")], expected=[], has_id=False
        ),
    }
    judged = judge(history(spark, cases), BEFORE).cache()

    counts = {row["partition"]: row for row in verdicts.summarise(judged).collect()}
    bins = statistics.count_in_bins(judged, 5).collect()

    def of(name: str) -> list[int]:
        return [counts[number][name] for number in range(4)]

    assert of("unique_ids") == [1, 0, 0, 0]
    assert of("repeats") == [1, 2, 0, 0]
    assert of("repeats_in_another_partition") == [0, 1, 0, 0]
    assert of("without_id") == [0, 0, 1, 1]
    measured = Counter(dict.fromkeys(("delay_ms", "distance"), 0))
    for row in bins:
        measured[row["measure"]] += row["records"]
    assert measured == {"delay_ms": 3, "distance": 2}
    assert statistics.extent(judged).collect()[0]["delay_ms"] == [2, 3, 3, 3]


def test_examples_have_defects_across_partitions_however_many_there_are_within(
    spark: SparkSession,
) -> None:
    cases = {f"lost {number}": Case(raw=[(0, "a")], clean=[], expected=[]) for number in range(5)}
    cases["across"] = CASES["sent to two partitions, passed on in both"]
    judged = judge(history(spark, cases), BEFORE)

    found = [verdict(row) for row in verdicts.examples(judged, 2).collect()]

    assert found == [(0, "lost"), (0, "lost"), (1, "duplicated", 0)]


def test_the_ids_of_all_partitions_come_together_in_one_shuffle(spark: SparkSession) -> None:
    judged = judge(history(spark, CASES), BEFORE)

    plan = judged._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001 (no public one)

    assert plan.count("Exchange") == 1, plan
