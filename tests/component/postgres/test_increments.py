"""The increments of a batch do not depend on how a topic is split into batches."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from dedupe_pipeline.errors import JobRefused
from dedupe_pipeline.jobs.aggregate import AggregateJob
from dedupe_pipeline.jobs.aggregate.columns import shape_of
from dedupe_pipeline.jobs.aggregate.increments import Progress, increments
from dedupe_pipeline.source import SCHEMA
from tests.support.checker.record import Record, TimestampType
from tests.support.layers import matrix
from tests.support.postgres.aggregate_truth import Account, Key, job, messages, truth
from tests.support.spark.session import spark

__all__ = ["spark"]

PARTITIONS = 2
COUNT = 400
OVERLAP = 20
HOW: tuple[Callable[[list[int]], int], ...] = (sum, sum, sum, min, max, sum)
"""The function that merges two rows, for each measure and the number of late records."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def records(seed: int, count: int) -> list[Record]:
    """Return records as in a topic, with gaps between the offsets."""
    return [
        Record(
            partition=sent.partition,
            offset=3 * number,
            timestamp_type=TimestampType.CREATE_TIME,
            timestamp_ms=number,
            key=sent.key,
            value=sent.value,
            headers=(),
        )
        for number, sent in enumerate(messages(seed, count, partitions=PARTITIONS))
    ]


def frame(spark: SparkSession, given: Sequence[Record]) -> DataFrame:
    rows = [
        (
            each.partition,
            each.offset,
            datetime.fromtimestamp(each.timestamp_ms / 1000, UTC),
            each.key,
            each.value,
            None,
        )
        for each in given
    ]
    return spark.createDataFrame(rows, SCHEMA)


class Added:
    """Adds up the increments of batches, as the database does."""

    def __init__(self, spark: SparkSession, wanted: AggregateJob) -> None:
        self._spark = spark
        self._job = wanted
        self._schema = shape_of(spark, wanted).schema
        self._progress: dict[int, Progress] = {}
        self.rows: dict[Key, tuple[int | None, ...]] = {}
        self.accounts: dict[int, Account] = {}

    def add(self, batch: Sequence[Record]) -> None:
        wanted = increments(frame(self._spark, batch), self._job, self._schema, self._progress)
        found = wanted.toArrow().to_pylist()
        for row in found:
            self._add_row(row)
            self._add_account(row)
        for row in found:
            self._advance(row)

    def _add_row(self, row: dict[str, Any]) -> None:
        if row["_window"] is None:
            return
        measures: tuple[int | None, ...] = (0, 0, None, None, None, row["_additions"])
        if row["_fate"] == "counted":
            names = ("flights", "delayed", "total", "least", "worst")
            measures = (*(row[name] for name in names), 0)
        key = row["_window"], row["carrier"]
        old = self.rows.get(key, (0, 0, None, None, None, 0))
        self.rows[key] = tuple(map(_merged, HOW, old, measures))

    def _add_account(self, row: dict[str, Any]) -> None:
        account = self.accounts.setdefault(row["_partition"], Account())
        account.records += row["_records"]
        what = "_additions" if row["_fate"] in {"counted", "late"} else "_records"
        setattr(account, row["_fate"], getattr(account, row["_fate"]) + row[what])
        account.newest = max(filter(None, (account.newest, row["_newest"])), default=None)

    def _advance(self, row: dict[str, Any]) -> None:
        known = self._progress.get(row["_partition"], Progress(next_offset=0))
        newest = self.accounts[row["_partition"]].newest
        self._progress[row["_partition"]] = Progress(
            next_offset=max(known.next_offset, row["_last"] + 1),
            newest_us=None if newest is None else (newest - EPOCH) // MICROSECOND,
        )


def _merged(how: Callable[[list[int]], int], old: int | None, new: int | None) -> int | None:
    values = [each for each in (old, new) if each is not None]
    return how(values) if values else None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        matrix({"late": "Drop"}),
        matrix({"watermark": None}),
        matrix({"watermark": "0s", "window": "10m"}),
        {"slide": "15m"},
    ],
    ids=str,
)
@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.generate],  # to shrink takes minutes, of Spark's many short jobs
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, COUNT), max_size=3))
def test_batches_add_up_to_the_truth_however_they_are_cut_and_overlap(
    spark: SparkSession, changes: dict[str, object], seed: int, cuts: list[int]
) -> None:
    """Records that overlap with the previous batch are not added again."""
    wanted, sent = job("t", **changes), records(seed, COUNT)
    added = Added(spark, wanted)

    for start, end in pairwise([0, *sorted(cuts), COUNT]):
        added.add(sent[max(0, start - OVERLAP) : end])

    expected = truth(sent, wanted)
    assert added.accounts == expected.accounts
    assert added.rows == expected.table(wanted)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema": "carrier STRNG"}, "schema: Spark cannot use 'carrier STRNG': "),
        ({"schema": "record STRING"}, "schema: the field record exists already"),
        ({"eventTime": "carrier"}, "eventTime: 'carrier' is string; it must be a timestamp"),
        ({"where": "delay"}, "where: 'delay' is int; it must be true or false"),
        ({"where": "delay >"}, "where: Spark cannot use 'delay >': "),
        ({"keys": ["carier"]}, "keys.carier: Spark cannot use 'carier': "),
        ({"keys": {"k": "delay / 2"}}, "keys.k: 'delay / 2' is double; it must be text"),
        ({"keys": {"k": "explode(array(1, 2))"}}, "keys.k: Spark cannot use "),
        ({"measures": {"m": "sum(carrier)"}}, "measures.m: 'carrier' is string; it must be a num"),
        ({"measures": {"m": "max(carrier)"}}, "measures.m: 'carrier' is string; it must be a num"),
        ({"measures": {"m": "sum(sum(delay))"}}, "measures.m: Spark cannot use 'sum(delay)': "),
        ({"measures": {"m": "sum(delay) + sum(delay)"}}, "measures.m: Spark cannot use "),
    ],
)
def test_what_spark_cannot_compute_is_refused_before_it_reads(
    spark: SparkSession, changes: dict[str, object], says: str
) -> None:
    with pytest.raises(JobRefused) as refused:
        shape_of(spark, job("t", **changes))

    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("lag(delay) OVER (ORDER BY time)", "depends on other records (OVER)"),
        ("if(rand() < 0.5, delay, 0)", "calls rand()"),
        ("length(uuid())", "calls uuid()"),
        ("exists(transform(array(1), x -> x + rand()), x -> x > 1)::int", "calls rand()"),
        ("year(current_timestamp())", "calls current_timestamp()"),
        ("year(now())", "calls now()"),
        ("year(current_date)", "calls current_date()"),
        ("hour(localtimestamp())", "calls localtimestamp()"),
        ("unix_timestamp()", "calls current_timestamp()"),
        ("monotonically_increasing_id()", "calls monotonically_increasing_id()"),
        ("hour(TIMESTAMP 'now')", "contains the present time"),
        ("hour(to_timestamp('Now UTC'))", "contains the present time"),
        ("if(time > 'yesterday', 1, 0)", "contains the present time"),
        ("(SELECT max(n) FROM VALUES (1) AS t(n))", "contains a subquery"),
        ("hour(window(time, '1 hour').start)", "generates or drops records"),
    ],
)
def test_what_depends_on_more_than_the_record_is_refused(
    spark: SparkSession, expression: str, says: str
) -> None:
    with pytest.raises(JobRefused) as refused:
        shape_of(spark, job("t", measures={"m": f"sum({expression})"}))

    message = str(refused.value)
    assert message.startswith(f"measures.m: {expression!r} {says}, so its result would depend on ")
    assert message.endswith("use only the record itself, such as record.timestamp")


@pytest.mark.parametrize("where", ["eventTime", "where", "keys.k"])
def test_it_is_refused_wherever_it_stands(spark: SparkSession, where: str) -> None:
    said = {"eventTime": "now()", "where": "rand() < 0.5", "keys.k": "uuid()"}[where]
    changes: dict[str, object] = {where: said}
    if where == "keys.k":
        changes = {"keys": {"k": said}}

    with pytest.raises(JobRefused, match=rf"^{where}: '.*' calls .*\(\), so"):
        shape_of(spark, job("t", **changes))


def test_what_looks_like_it_and_depends_on_the_record_alone_is_taken(spark: SparkSession) -> None:
    wanted = job(
        "t",
        eventTime="if(time < record.timestamp + interval 1 hour, time, null)",
        where="carrier <> 'now' AND delay BETWEEN 1 AND 5 AND time > TIMESTAMP '2013-01-01'",
        keys={"k": "transform(split(carrier, ','), x -> upper(x))[0]"},
        measures={"m": "sum(cast('1' AS INT))"},
    )

    assert shape_of(spark, wanted).measures == {"m": "bigint"}


def test_columns_have_the_types_of_what_is_computed(spark: SparkSession) -> None:
    shape = shape_of(
        spark,
        job(
            "t",
            schema="t TIMESTAMP, d DATE, b BOOLEAN, i INT, l BIGINT, f FLOAT, x DECIMAL(9, 2), s STRING",
            eventTime="t",
            where=None,
            keys=["t", "d", "b", "i", "x", "s"],
            measures={
                "n": "count(s)",
                "i_sum": "sum(i)",
                "f_sum": "sum(f)",
                "x_sum": "sum(x)",
                "i_min": "min(i)",
                "d_max": "max(d)",
                "t_max": "max(t)",
            },
        ),
    )

    assert list(shape.keys.values()) == [
        "timestamp with time zone",
        "date",
        "boolean",
        "bigint",
        "numeric",
        "text",
    ]
    assert shape.measures == {
        "n": "bigint",
        "i_sum": "bigint",
        "f_sum": "double precision",
        "x_sum": "numeric",
        "i_min": "bigint",
        "d_max": "date",
        "t_max": "timestamp with time zone",
    }


def test_a_job_without_a_schema_counts_records_by_what_kafka_knows_of_them(
    spark: SparkSession,
) -> None:
    wanted = job(
        "t",
        schema=None,
        eventTime="record.timestamp",
        where=None,
        keys={"p": "record.partition", "k": "left(record.key, 1)"},
        measures={"n": "count(*)", "last": "max(record.offset)"},
    )
    sent = records(1, 30)
    found = increments(frame(spark, sent), wanted, shape_of(spark, wanted).schema, {}).toArrow()

    assert sum(row["n"] for row in found.to_pylist()) == 30
    assert max(row["last"] for row in found.to_pylist()) == 87
