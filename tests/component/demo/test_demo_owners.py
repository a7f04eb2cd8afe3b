"""The demo's check of duplicates detects a wrong original."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from dedupe_pipeline.source import SCHEMA
from dedupe_worker.dedup.side_headers import AGE_HEADER, ORIGINAL_HEADER
from examples.flights.owners import explain
from tests.support.spark.session import spark

__all__ = ["spark"]

NOW = datetime(2026, 1, 1, tzinfo=UTC)

Headers = list[tuple[str, bytes]]


def records(spark: SparkSession, *rows: tuple[int, int, bytes | None, Headers]) -> DataFrame:
    """Return rows of partition, offset, key and headers, in a reader's columns."""
    return spark.createDataFrame(
        [(partition, offset, NOW, key, b"{}", headers) for partition, offset, key, headers in rows],
        SCHEMA,
    )


def names(original: str, age_ms: str | None = "5") -> Headers:
    """Return the headers of a duplicate; only the last of a name is the worker's."""
    headers = [(ORIGINAL_HEADER, b"9:9"), (ORIGINAL_HEADER, original.encode())]
    return headers if age_ms is None else [*headers, (AGE_HEADER, age_ms.encode())]


@pytest.fixture
def raw(spark: SparkSession) -> DataFrame:
    """Three records with key `a`, and two with key `b`."""
    return records(
        spark,
        (0, 3, b"a", []),
        (0, 7, b"a", []),
        (0, 10, b"a", []),
        (1, 2, b"b", []),
        (1, 4, b"b", []),
    )


@pytest.mark.matrix  # tests/component/worker/test_routed.py
def test_duplicates_that_name_the_first_of_their_key_are_right(
    spark: SparkSession, raw: DataFrame
) -> None:
    duplicates = records(
        spark,
        (0, 0, b"a", names("0:3", "5")),
        (0, 1, b"a", names("0:3", "0")),
        (1, 0, b"b", names("1:2", "5")),
    )

    found = explain(raw, duplicates)

    assert (found.records, found.misattributed, found.ages_ms) == (3, 0, {0: 1, 5: 2})


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        (b"a", names("0:7")),
        (b"a", names("1:3")),
        (b"a", names("unknown", age_ms=None)),
        (b"a", []),
        (b"c", names("0:3")),
    ],
    ids=["a later copy", "another partition", "unknown", "no header", "a key that never was"],
)
def test_any_other_owner_is_counted_as_wrong(
    spark: SparkSession, raw: DataFrame, key: bytes, headers: Headers
) -> None:
    found = explain(raw, records(spark, (0, 0, key, headers)))

    assert (found.records, found.misattributed) == (1, 1)


def test_ids_in_a_header_are_compared_within_their_partition(spark: SparkSession) -> None:
    """Scattered copies have no key, and each partition has its own original."""

    def sent(identity: bytes) -> Headers:
        return [("flight-id", identity)]

    raw = records(
        spark,
        *((0, offset, None, sent(b"a")) for offset in (3, 7)),
        *((1, offset, None, sent(b"a")) for offset in (1, 2)),
        (1, 0, None, sent(b"b")),
    )
    duplicates = records(
        spark,
        (0, 0, None, [*sent(b"a"), *names("0:3")]),
        (1, 0, None, [*sent(b"a"), *names("1:1")]),
        (1, 1, None, [*sent(b"a"), *names("0:3")]),
    )

    found = explain(raw, duplicates, "flight-id")

    assert (found.records, found.misattributed) == (3, 1)
