"""The audit judges all inputs together with all of the output: verdicts on small histories, without a topic."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_pipeline.jobs.audit import repartitioned, statistics, verdicts
from dedupe_pipeline.jobs.audit.corrections import corrected
from dedupe_pipeline.jobs.audit.positions import in_task
from tests.support.spark.session import spark

__all__ = ["spark"]

COLUMNS = (
    "partition INT, offset BIGINT, time_ms BIGINT, digest BINARY, has_id BOOLEAN, ident BINARY"
)
OF_RAW = ", origin STRING, in_order BINARY, before BIGINT"
OFFSETS = 100  # of each case, so that a row tells its case
KEYS = {"a": "k", "b": "k", "c": "other"}
"""The key of each content."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The copies of one message, or of messages of one key, and the expected verdicts.

    `raw` are origin and content, `clean` are partition and content. An expected verdict follows the partition where it
    counts, and is followed by the partition of the other copy if there is one.
    """

    raw: Sequence[tuple[str, str]]
    clean: Sequence[tuple[int, str]]
    expected: Sequence[tuple[int | None, str] | tuple[int | None, str, int]]
    late: Sequence[str] = ()
    has_id: bool = True
    """Whether all have the same id; else none has one."""
    pending: frozenset[str] = field(default_factory=frozenset)
    """Origins of which nothing was committed."""


CASES = {
    "sent to one partition of each input, passed on once": Case(
        raw=[("x/0", "a"), ("y/1", "a")],
        clean=[(2, "a")],
        expected=[(2, "kept"), (2, "removed")],
    ),
    "another copy than that of the lowest offset came first": Case(
        raw=[("x/0", "a"), ("x/1", "b"), ("y/0", "c")],
        clean=[(1, "b")],
        expected=[(1, "kept"), (1, "removed"), (1, "removed")],
    ),
    "passed on nowhere": Case(
        raw=[("x/0", "a"), ("y/0", "a"), ("y/1", "b")],
        clean=[],
        expected=[(None, "lost"), (None, "removed"), (None, "removed")],
    ),
    "passed on twice in one partition": Case(
        raw=[("x/0", "a"), ("y/0", "a"), ("y/1", "a")],
        clean=[(0, "a"), (0, "a")],
        expected=[(0, "kept"), (0, "duplicated"), (0, "removed")],
    ),
    "passed on in two partitions": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[(0, "b"), (1, "a")],
        expected=[(0, "kept"), (1, "duplicated", 0)],
    ),
    "passed on more often than sent": Case(
        raw=[("x/0", "a")],
        clean=[(0, "a"), (0, "a")],
        expected=[(0, "kept"), (0, "duplicated")],
    ),
    "unlike every copy": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[(0, "c")],
        expected=[(0, "altered"), (0, "removed")],
    ),
    "once as it was, and once altered": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[(0, "c"), (0, "b")],
        expected=[(0, "kept"), (0, "duplicated")],
    ),
    "never sent": Case(
        raw=[],
        clean=[(0, "a"), (1, "a")],
        expected=[(0, "foreign"), (1, "duplicated", 0)],
    ),
    "not routed yet from one input": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[(0, "b")],
        expected=[(0, "kept"), (0, "pending")],
        pending=frozenset({"x/0"}),
    ),
    "not routed yet from any": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[],
        expected=[(None, "pending"), (None, "pending")],
        pending=frozenset({"x/0", "y/0"}),
    ),
    "lost, and another copy not routed yet": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[],
        expected=[(None, "pending"), (None, "lost")],
        pending=frozenset({"x/0"}),
    ),
    "ahead of what was committed": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[(0, "a")],
        expected=[(0, "kept"), (0, "removed")],
        pending=frozenset({"x/0"}),
    ),
    "of an origin that no offset is known of": Case(
        raw=[("new/0", "a")],
        clean=[],
        expected=[(None, "pending")],
        pending=frozenset({"new/0"}),
    ),
    "late": Case(
        raw=[("x/0", "a"), ("y/0", "a")],
        clean=[],
        expected=[(None, "late"), (None, "late")],
        late=["a", "a"],
    ),
    "late, and a copy with a later timestamp passed": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[(0, "b")],
        expected=[(None, "late"), (0, "kept")],
        late=["a"],
    ),
    "late as altered": Case(
        raw=[("x/0", "a")],
        clean=[],
        expected=[(None, "lost")],
        late=["b"],
    ),
    "without an id, sent twice": Case(
        raw=[("x/0", "a"), ("x/0", "a"), ("y/0", "a")],
        clean=[(0, "a"), (2, "a"), (2, "a")],
        expected=[(0, "kept"), (2, "kept"), (2, "kept")],
        has_id=False,
    ),
    "without an id, one missing": Case(
        raw=[("x/0", "a"), ("y/0", "a")],
        clean=[(1, "a")],
        expected=[(1, "kept"), (None, "lost")],
        has_id=False,
    ),
    "without an id, the missing one not routed yet": Case(
        raw=[("x/0", "a"), ("y/0", "a")],
        clean=[(1, "a")],
        expected=[(1, "kept"), (None, "pending")],
        has_id=False,
        pending=frozenset({"x/0"}),
    ),
    "without an id, one too many": Case(
        raw=[("x/0", "a")],
        clean=[(0, "a"), (1, "a")],
        expected=[(0, "kept"), (1, "duplicated")],
        has_id=False,
    ),
    "without an id, never sent": Case(
        raw=[],
        clean=[(0, "a"), (1, "a")],
        expected=[(0, "foreign"), (1, "duplicated")],
        has_id=False,
    ),
}
OBSERVED = {
    "every copy is passed on, in any order of the origins": Case(
        raw=[("x/0", "a"), ("x/0", "b"), ("y/0", "c"), ("y/0", "a")],
        clean=[(0, "c"), (0, "a"), (0, "b"), (0, "a")],
        expected=[(0, "kept")] * 4,
    ),
    "one is missing": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[(0, "b")],
        expected=[(0, "kept"), (0, "lost")],
    ),
    "one is altered": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[(0, "b"), (0, "c")],
        expected=[(0, "kept"), (0, "altered")],
    ),
    "one comes twice": Case(
        raw=[("x/0", "a"), ("y/0", "b")],
        clean=[(0, "b"), (0, "a"), (0, "a")],
        expected=[(0, "kept"), (0, "kept"), (0, "duplicated")],
    ),
    "those of one origin change places": Case(
        raw=[("x/0", "a"), ("x/0", "b")],
        clean=[(0, "b"), (0, "a")],
        expected=[(0, "kept"), (0, "reordered")],
    ),
    "equal ones of two origins could be either": Case(
        raw=[("x/0", "b"), ("x/0", "a"), ("y/0", "a")],
        clean=[(0, "a"), (0, "b"), (0, "a")],
        expected=[(0, "kept")] * 3,
    ),
}
# Without ids each content is a message of its own; a and b have the same key, c has another.
OF_KEYS = {
    "one origin, one key, in order": Case(
        raw=[("x/0", "a"), ("x/0", "b")],
        clean=[(0, "a"), (0, "b")],
        expected=[(0, "kept"), (0, "kept")],
        has_id=False,
    ),
    "one origin, one key, out of order": Case(
        raw=[("x/0", "a"), ("x/0", "b")],
        clean=[(0, "b"), (0, "a")],
        expected=[(0, "kept"), (0, "reordered")],
        has_id=False,
    ),
    "one origin, two keys": Case(
        raw=[("x/0", "a"), ("x/0", "c")],
        clean=[(0, "c"), (0, "a")],
        expected=[(0, "kept"), (0, "kept")],
        has_id=False,
    ),
    "two origins, one key": Case(
        raw=[("x/0", "a"), ("x/1", "b")],
        clean=[(0, "b"), (0, "a")],
        expected=[(0, "kept"), (0, "kept")],
        has_id=False,
    ),
}


WITHOUT_ORDER = {
    "one origin, one key, in another order": replace(
        OF_KEYS["one origin, one key, out of order"], expected=[(0, "kept")] * 2
    )
}


def history(spark: SparkSession, cases: Mapping[str, Case], by: RepartitionBy) -> DataFrame:
    """Return the records of the cases, of all topics."""

    def rows(topic: str) -> Iterator[tuple[object, ...]]:
        for number, (name, case) in enumerate(cases.items()):
            offset = count(number * OFFSETS)
            for place, content in getattr(case, topic):
                at, digest = next(offset), f"{name}/{content}".encode()
                ident = f"id of {name}".encode() if case.has_id else digest
                row = (at, 1_000 + at, digest, case.has_id, ident)
                if topic == "clean":
                    yield (place, *row)
                    continue
                key = f"{name}/{KEYS[content]}".encode()
                before = 0 if place in case.pending else 1 << 40
                yield (0, *row, place, key if by is RepartitionBy.KEY else ident, before)

    late = [
        (7, at, 1, f"{name}/{content}".encode(), True, f"id of {name}".encode())
        for name, case in cases.items()
        for at, content in enumerate(case.late)
    ]

    def table(found: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
        return spark.createDataFrame(found, schema).withColumn("body", F.xxhash64("digest"))

    return repartitioned.history_of(
        table(list(rows("raw")), COLUMNS + OF_RAW).withColumn("position", in_task()),
        table(list(rows("clean")), COLUMNS),
        table(late, COLUMNS) if late else None,
    )


def found(
    spark: SparkSession,
    cases: Mapping[str, Case],
    *,
    by: RepartitionBy = RepartitionBy.ID,
    removes: bool = True,
) -> dict[str, Counter[object]]:
    """Return the verdicts of each case."""
    counted: dict[str, Counter[object]] = {name: Counter() for name in cases}
    names = list(cases)
    judged = repartitioned.judge(history(spark, cases, by), removes=removes)
    changes = repartitioned.corrections_of(judged, by=by, removes=removes)
    with corrected(judged, changes) as correct:
        rows = correct.collect()
    for row in rows:
        offset = row["clean_offset"] if row["raw_offset"] is None else row["raw_offset"]
        other = [] if row["other_partition"] is None else [row["other_partition"]]
        counted[names[offset // OFFSETS]][row["partition"], row["verdict"], *other] += 1
    return counted


def expected(cases: Mapping[str, Case]) -> dict[str, Counter[object]]:
    return {name: Counter(case.expected) for name, case in cases.items()}


@pytest.mark.parametrize(
    ("by", "cases"),
    [(RepartitionBy.KEY, CASES | OF_KEYS), (RepartitionBy.ID, CASES | WITHOUT_ORDER)],
)
def test_a_message_is_expected_once_in_all_of_the_output(
    spark: SparkSession, by: RepartitionBy, cases: dict[str, Case]
) -> None:
    """By key, the records of a key and an origin keep their order; by id, there is none."""
    assert found(spark, cases, by=by) == expected(cases)


def test_a_stream_that_observes_has_to_pass_every_copy(spark: SparkSession) -> None:
    assert found(spark, OBSERVED, removes=False) == expected(OBSERVED)


def test_a_repeat_counts_where_its_id_came_out_and_has_a_distance_in_its_origin(
    spark: SparkSession,
) -> None:
    case = Case(
        raw=[("x/0", "a"), ("y/0", "b"), ("y/0", "c"), ("x/0", "a")], clean=[(3, "b")], expected=[]
    )
    lost = Case(raw=[("x/0", "a")], clean=[], expected=[])
    late = Case(raw=[("x/1", "a")], clean=[], expected=[], late=["a"])
    cases = {"one": case, "lost": lost, "late": late}
    by = RepartitionBy.ID
    judged = repartitioned.judge(history(spark, cases, by)).cache()

    counts = {row["partition"]: row for row in verdicts.summarise(judged).collect()}
    bins = statistics.count_in_bins(judged, 5).collect()
    [example] = verdicts.examples(judged, 10).collect()

    at = counts[3]
    assert (at["raw_records"], at["clean_records"], at["unique_ids"], at["repeats"]) == (4, 1, 1, 3)
    assert at["removed"] == 3
    nowhere = counts[None]
    assert (nowhere["raw_records"], nowhere["lost"], nowhere["late"]) == (2, 1, 1)
    assert nowhere["unique_ids"] == 1
    measured = Counter[str]()
    for row in bins:
        measured[row["measure"]] += row["records"]
    assert measured == {"delay_ms": 3, "distance": 2}
    assert (example["verdict"], example["origin"], example["partition"]) == ("lost", "x/0", None)


def test_the_copies_of_an_id_come_together_in_one_shuffle(spark: SparkSession) -> None:
    cases = {name: case for name, case in CASES.items() if not case.late}
    judged = repartitioned.judge(history(spark, cases, RepartitionBy.ID))

    plan = judged._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001 (no public one)

    assert plan.count("Exchange") == 1, plan
