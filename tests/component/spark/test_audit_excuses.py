"""What a healthy stream may do is counted and no defect; a defect of a similar look is still one.

Each excuse has a pair of cases: verdicts on small histories, without a topic.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_crds.spec.topics import IdSource
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.jobs.audit import repartitioned, verdicts
from dedupe_pipeline.jobs.audit.corrections import corrected
from dedupe_pipeline.jobs.audit.excuses import Facts
from dedupe_pipeline.jobs.audit.identity import with_identity
from dedupe_pipeline.jobs.audit.positions import in_task
from dedupe_pipeline.jobs.audit.told_ids import ToldIds
from dedupe_pipeline.source import SCHEMA as RECORDS
from tests.support.layers import matrix
from tests.support.spark.session import spark

__all__ = ["spark"]

SCHEMA = "partition INT, offset BIGINT, time_ms BIGINT, digest BINARY, has_id BOOLEAN, ident BINARY"
DAY = 86_400_000
NOW = 1_000 * DAY


@dataclass(frozen=True, kw_only=True)
class Case:
    """The records of one partition in both topics, in order, as texts: id, content, day. Id `-` is none.

    `begins` and `accounted_from` are as of `Facts`.
    """

    raw: str
    clean: str
    expected: dict[str, int]
    begins: int = 0
    accounted_from: int = 0


BEFORE = {
    "the input was deleted up to d": Case(
        raw="d0@3 e0@3 f0@3",
        clean="a0@1 b0@1 c0@2 d0@3 e0@3 f0@3",
        begins=4,
        expected={"before_input": 3, "kept": 3},
    ),
    "repeats of what was deleted": Case(
        raw="d0@3 a1@3 e0@3 b0@1",
        clean="a0@1 b0@1 c0@2 d0@3 e0@3",
        begins=4,
        # b0 equals the record that was deleted, so that one is not counted as of before.
        expected={"before_input": 2, "kept": 3, "removed": 1},
    ),
    "one of these is lost": Case(
        raw="d0@3 x0@3 e0@3",
        clean="a0@1 b0@1 d0@3 e0@3",
        begins=3,
        expected={"before_input": 2, "kept": 2, "lost": 1},
    ),
    "a foreign record after the input begins": Case(
        raw="d0@3 e0@3 f0@3",
        clean="a0@1 d0@3 e0@3 y0@1 f0@3",
        begins=2,
        expected={"before_input": 1, "kept": 3, "foreign": 1},
    ),
    "a repeat of what was deleted passed": Case(
        raw="d0@3 a1@3 e0@3",
        clean="a0@1 d0@3 a1@3 e0@3",
        begins=2,
        expected={"before_input": 1, "kept": 2, "duplicated": 1},
    ),
    "nothing was deleted, and the input lacks one": Case(
        raw="d0@3 e0@3",
        clean="a0@1 d0@3 e0@3",
        expected={"foreign": 1, "kept": 2},
    ),
    "an altered record after the input begins": Case(
        raw="d0@3 e0@3 f0@3",
        clean="a0@1 d0@3 e9@3 f0@3",
        begins=2,
        expected={"before_input": 1, "kept": 2, "altered": 1},
    ),
    "two in the wrong order after the input begins": Case(
        raw="d0@3 e0@3 f0@3",
        clean="a0@1 d0@3 f0@3 e0@3",
        begins=2,
        expected={"before_input": 1, "kept": 2, "reordered": 1},
    ),
    "the output was deleted up to d": Case(
        raw="a0@1 b0@1 a1@2 d0@3 b1@3 e0@3",
        clean="d0@3 e0@3",
        accounted_from=3,
        expected={"before_output": 3, "kept": 2, "removed": 1},
    ),
    "one is lost after the output begins": Case(
        raw="a0@1 b0@1 d0@3 x0@3 e0@3",
        clean="d0@3 e0@3",
        accounted_from=3,
        expected={"before_output": 2, "kept": 2, "lost": 1},
    ),
    "the output was deleted, and an id passed again after its window": Case(
        raw="a0@1 d0@30 a1@40 e0@40",
        clean="d0@30 a1@40 e0@40",
        accounted_from=1,
        expected={"before_output": 1, "kept": 3},
    ),
}
# Of equal records without an id it is not known which is which; docs/audit.md says what follows.
EQUAL = {
    "none is in the input that is read": Case(
        raw="d0@3",
        clean="-0@1 d0@3",
        begins=1,
        expected={"before_input": 1, "kept": 1},
    ),
    "one was sent before the input begins, and one after it": Case(
        raw="-0@1 d0@3",
        clean="-0@1 -0@1 d0@3",
        begins=1,
        expected={"kept": 2, "duplicated": 1},
    ),
    "the one after it is lost, and the one before stands in for it": Case(
        raw="-0@1 d0@3", clean="-0@1 d0@3", begins=1, expected={"kept": 2}
    ),
    "one was sent before the output begins, and one after it": Case(
        raw="-0@1 c0@1 -0@1 d0@3",
        clean="-0@1 d0@3",
        accounted_from=2,
        expected={"before_output": 1, "kept": 2, "lost": 1},
    ),
}
BEYOND = {
    "again after the window": Case(
        raw="a0@1 b0@1 a1@2 c0@30 a2@30 d0@30",
        clean="a0@1 b0@1 c0@30 a2@30 d0@30",
        expected={"kept": 4, "removed": 1, "beyond_window": 1},
    ),
    "the same record again after the window": Case(
        raw="a0@1 b0@1 c0@30 a0@1 d0@30",
        clean="a0@1 b0@1 c0@30 a0@1 d0@30",
        expected={"kept": 4, "beyond_window": 1},
    ),
    "again within the window": Case(
        raw="a0@1 b0@1 c0@27 a2@27 d0@27",
        clean="a0@1 b0@1 c0@27 a2@27 d0@27",
        expected={"kept": 4, "duplicated": 1},
    ),
    "again at once, with a wrong time": Case(
        raw="a0@1 b0@1 a1@300 c0@1 d0@1",
        clean="a0@1 b0@1 a1@300 c0@1 d0@1",
        expected={"kept": 4, "duplicated": 1},
    ),
    "again after the window, and then at once": Case(
        raw="a0@1 b0@1 c0@30 a1@30 a2@30 d0@30",
        clean="a0@1 b0@1 c0@30 a1@30 a2@30 d0@30",
        expected={"kept": 4, "beyond_window": 1, "duplicated": 1},
    ),
    "again after the window, but never sent so": Case(
        raw="a0@1 b0@1 a1@2 c0@30 d0@30",
        clean="a0@1 b0@1 c0@30 a7@30 d0@30",
        expected={"kept": 4, "duplicated": 1},
    ),
    "sent once, and there again after the window": Case(
        raw="a0@1 b0@1 c0@30 d0@30",
        clean="a0@1 b0@1 c0@30 a0@1 d0@30",
        expected={"kept": 4, "duplicated": 1},
    ),
    "one is lost, long after others": Case(
        raw="a0@1 b0@1 c0@30 d0@30",
        clean="a0@1 b0@1 d0@30",
        expected={"kept": 3, "lost": 1},
    ),
}
FORGOTTEN = {
    "again, as a table may forget": Case(
        raw="a0@1 b0@1 c0@1 a1@1",
        clean="a0@1 b0@1 c0@1 a1@1",
        expected={"kept": 3, "forgotten": 1},
    ),
    "a table never loses": Case(
        raw="a0@1 b0@1 c0@1", clean="a0@1 c0@1", expected={"kept": 2, "lost": 1}
    ),
    "sent once, there twice": Case(
        raw="a0@1 b0@1", clean="a0@1 b0@1 a0@1", expected={"kept": 2, "duplicated": 1}
    ),
}


SIZE = {
    "again after so many others": Case(
        raw="a0@1 b0@1 c0@1 a1@1 d0@1 d1@1",
        clean="a0@1 b0@1 c0@1 a1@1 d0@1 d1@1",
        expected={"kept": 4, "beyond_window": 1, "duplicated": 1},
    ),
}
# First of the cases, so that its ids are those of `told`.
TOLD = {
    "an id of before, one that was forgotten once, and others": Case(
        raw="a0@1 k0@1 b0@1 x0@1 a1@1 a2@1 b1@1 k1@1",
        clean="a0@1 b0@1 a1@1 a2@1 b1@1",
        expected={
            "kept": 2,
            "known_before": 1,
            "removed": 1,
            "lost": 1,
            "forgotten_on_request": 1,
            "duplicated": 2,
        },
    )
}


def told(spark: SparkSession) -> Facts:
    """Return the facts about `TOLD` if it is the first case, and of a window."""
    return Facts(
        max_age_ms=28 * DAY,
        known=spark.createDataFrame([(b"0/k",)], "ident BINARY"),
        forgotten=spark.createDataFrame([(b"0/a", 1)], "ident BINARY, times BIGINT"),
    )


_RAW = ("unique_ids", "repeats", "without_id", "before_output")


def histories(spark: SparkSession, cases: Sequence[Case], topic: str) -> DataFrame:
    """Return the records of all cases in a topic; each case is a partition."""
    rows = []
    for number, case in enumerate(cases):
        offset = count()
        for text in getattr(case, topic).split():
            content, day = text.split("@")
            digest, ident = (f"{number}/{part}".encode() for part in (text, content[0]))
            has_id = content[0] != "-"
            row = (
                number,
                next(offset),
                int(day) * DAY,
                digest,
                has_id,
                ident if has_id else digest,
            )
            rows.append(row)
    return spark.createDataFrame(rows, SCHEMA).withColumn("body", F.xxhash64("digest"))


def found(
    spark: SparkSession, cases: Sequence[Case], facts: Facts
) -> tuple[list[dict[str, int]], list[dict[str, object]]]:
    """Return the verdicts on each case, and the counts; each is a partition."""

    facts = replace(
        facts,
        now_ms=NOW,
        begins={number: case.begins for number, case in enumerate(cases)},
        accounted_from={number: case.accounted_from for number, case in enumerate(cases)},
    )
    raw, clean = (histories(spark, cases, topic) for topic in ("raw", "clean"))
    raw = raw.withColumn("position", in_task())
    copies = verdicts.number_copies(verdicts.history_of(raw, clean), facts)
    ends = dict.fromkeys(range(len(cases)), 1 << 40)
    compared = verdicts.compare_partitions(
        verdicts.mark_pending(verdicts.pair_copies(copies), ends)
    )
    judged = verdicts.add_verdicts(compared, facts=facts)
    verdict = [Counter[str]() for _ in cases]
    with corrected(judged, verdicts.corrections_of(judged, facts)) as correct:
        for row in correct.collect():
            verdict[row["partition"]][row["verdict"]] += 1
        counts = [row.asDict() for row in verdicts.summarise(correct, facts).collect()]
    return [dict(each) for each in verdict], counts


@pytest.mark.parametrize(
    ("cases", "facts"),
    [
        (TOLD | BEFORE | EQUAL | BEYOND, told),
        (FORGOTTEN, lambda _: Facts(slots=1024)),
        matrix(SIZE, lambda _: Facts(max_age_ms=28 * DAY, most_between=3)),
    ],
    ids=["told, deleted and window", "table", "size of a window"],
)
def test_each_excuse_counts_and_its_twin_is_a_defect(
    spark: SparkSession, cases: dict[str, Case], facts: Callable[[SparkSession], Facts]
) -> None:
    verdict, counts = found(spark, list(cases.values()), facts(spark))

    assert dict(zip(cases, verdict, strict=True)) == {n: c.expected for n, c in cases.items()}
    for each, row in zip(verdict, counts, strict=True):
        raw = sum(row[name] for name in _RAW)  # type: ignore[misc]
        assert raw == row["raw_records"], each


@pytest.mark.parametrize(
    ("source", "value"),
    [
        matrix({"from": "Key"}, b""),
        ({"from": "JsonPath", "path": "$.id"}, b'{"id": "17"}'),
        matrix({"from": "JsonPath", "path": "$.id"}, b'{"id": 17}'),
    ],
)
def test_told_ids_are_those_of_the_records(
    spark: SparkSession, tmp_path: Path, source: dict[str, str], value: bytes
) -> None:
    identity = IdSource.model_validate(source)
    now = datetime.now(UTC)
    records = spark.createDataFrame([(0, 0, now, b"17", value, None)], RECORDS)
    [ident] = [row["ident"] for row in with_identity(records, identity).collect()]
    lines, table = tmp_path / "forgotten", tmp_path / "known.parquet"
    lines.write_text("17\n\n 17 \n16\n")
    number = b": 17" in value
    spark.createDataFrame([(17 if number else "17",)], ["id"]).write.parquet(str(table))
    told = ToldIds(known=str(table), forgotten=lines)
    connection = KafkaConnection(bootstrap_servers="not-asked:9092")

    known, forgotten = (
        told.known_ids(spark, connection, identity),
        told.forgotten_ids(spark, identity),
    )

    assert known is not None
    assert forgotten is not None
    assert [row["ident"] for row in known.collect()] == [ident]
    assert [row["times"] for row in forgotten.where(F.col("ident") == F.lit(ident)).collect()] == [
        2
    ]


ORIGINS = {
    "the input was deleted up to d": Case(
        raw="d0@3 e0@3",
        clean="a0@1 b0@1 d0@3 e0@3",
        begins=3,
        expected={"before_input": 2, "kept": 2},
    ),
    "repeats of what was deleted, and one is lost": Case(
        raw="d0@3 a1@3 x0@3 e0@3",
        clean="a0@1 b0@1 d0@3 e0@3",
        begins=3,
        expected={"before_input": 2, "kept": 2, "removed": 1, "lost": 1},
    ),
    "a repeat of what was deleted passed, and a foreign record": Case(
        raw="d0@3 a1@3 e0@3",
        clean="a0@1 d0@3 a1@3 y0@1 e0@3",
        begins=2,
        expected={"before_input": 1, "kept": 2, "duplicated": 1, "foreign": 1},
    ),
    "the output was deleted up to d, and one is lost": Case(
        raw="a0@1 b0@1 d0@3 b1@3 x0@3",
        clean="d0@3",
        accounted_from=3,
        expected={"before_output": 2, "kept": 1, "removed": 1, "lost": 1},
    ),
    "again after the window": Case(
        raw="a0@1 b0@1 c0@30 a1@30 d0@30",
        clean="a0@1 b0@1 c0@30 a1@30 d0@30",
        expected={"kept": 4, "beyond_window": 1},
    ),
    "again within the window": Case(
        raw="a0@1 b0@1 c0@27 a1@27 d0@27",
        clean="a0@1 b0@1 c0@27 a1@27 d0@27",
        expected={"kept": 4, "duplicated": 1},
    ),
    "sent once, and there again after the window": Case(
        raw="a0@1 b0@1 c0@30 d0@30",
        clean="a0@1 b0@1 c0@30 a0@1 d0@30",
        expected={"kept": 4, "duplicated": 1},
    ),
}


@pytest.mark.parametrize(
    ("origins", "facts"),
    [
        (TOLD | ORIGINS, told),
        matrix(FORGOTTEN, lambda _: Facts(slots=1024)),
    ],
    ids=["told, deleted and window", "table"],
)
def test_each_excuse_and_its_twin_with_a_repartition(
    spark: SparkSession, origins: dict[str, Case], facts: Callable[[SparkSession], Facts]
) -> None:
    cases = list(origins.values())
    raw, clean = (histories(spark, cases, topic) for topic in ("raw", "clean"))
    known = replace(
        facts(spark),
        now_ms=NOW,
        begins={number: case.begins for number, case in enumerate(cases)},
        accounted_from={f"in/{number}": case.accounted_from for number, case in enumerate(cases)},
        between=100,
    )
    sent = raw.withColumns(
        {
            "origin": F.concat(F.lit("in/"), F.col("partition").cast("string")),
            "position": in_task(),
            "in_order": F.col("ident"),
            "before": F.lit(1 << 40),
        }
    )

    judged = repartitioned.judge(repartitioned.history_of(sent, clean, facts=known), facts=known)
    changes = repartitioned.corrections_of(judged, by=RepartitionBy.ID, facts=known)

    verdict = [Counter[str]() for _ in cases]
    with corrected(judged, changes) as correct:
        for row in correct.collect():
            number = row["partition"] if row["origin"] is None else int(row["origin"][3:])
            verdict[number][row["verdict"]] += 1
    assert dict(zip(origins, map(dict, verdict), strict=True)) == {
        name: case.expected for name, case in origins.items()
    }
