"""Spark reads the same ids from files as a worker finds in records, in every spelling, or refuses them by name."""

import csv
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.column_ids import IdType
from dedupe_ids.extract import extractor_for
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.jobs.audit.identity import with_identity
from dedupe_pipeline.jobs.audit.told_ids import ToldIds
from dedupe_pipeline.jobs.bootstrap.id_encoding import packed_ids
from dedupe_pipeline.jobs.id_files import IdFile
from dedupe_pipeline.source import SCHEMA as RECORDS
from tests.support.checker.record import Message
from tests.support.spark.session import spark
from tests.support.spelled_ids import JSON, KEY, SPELLINGS, Spelling
from tests.unit.worker.strategies import FakeRecord

__all__ = ["spark"]

NOWHERE = KafkaConnection(bootstrap_servers="not-asked:9092")
IN_SPARK = [each for each in SPELLINGS if each.in_spark]


def by_file() -> Iterator[list[Spelling]]:
    """Yield spellings that one file can have: of one type and option."""

    def of_file(each: Spelling) -> tuple[str, str]:
        return str(each.kind), str(each.told)

    for _, group in groupby(sorted(IN_SPARK, key=of_file), of_file):
        yield list(group)


def written(path: Path, spellings: list[Spelling]) -> str:
    cells = [each.cell for each in spellings]
    kind = spellings[0].kind
    if isinstance(kind, str):
        file = path.with_suffix(".csv")
        with file.open("w", newline="", encoding="utf-8") as opened:
            csv.writer(opened).writerows([("id", "time"), *((cell, 1) for cell in cells), ("", 1)])
        return str(file)
    file = path.with_suffix(".parquet")
    times = [1] * (len(cells) + 1)
    parquet.write_table(pa.table({"id": pa.array([*cells, None], kind), "time": times}), file)
    return str(file)


def packed(records: list[Message], source: IdSource) -> set[bytes]:
    found = [FakeRecord(each.key, each.value, list(each.headers) or None) for each in records]
    return {extractor_for(source)([each]).packed for each in found}  # type: ignore[list-item] # Kafka's method names


def refused(spark: SparkSession, path: str, source: IdSource, told: IdType | None) -> set[bytes]:
    """Return the cells that are refused. Raises RequestRefused if all are, whatever they contain."""
    file = IdFile(source=path, column="id", id_type=told)
    return {bytes(row["id"]) for row in file.refused(file.rows(spark), source).collect()}


def read(spark: SparkSession, path: str, source: IdSource, told: IdType | None) -> set[bytes]:
    file = IdFile(source=path, column="id", id_type=told)
    rows = file.rows(spark)
    ids = rows.select(packed_ids(*file.ids(rows, source)).alias("id16"))
    return {bytes(row["id16"]) for row in ids.where("id16 IS NOT NULL").collect()}


def known(spark: SparkSession, path: str, source: IdSource, told: IdType | None) -> set[bytes]:
    found = ToldIds(known=path, id_type=told).known_ids(spark, NOWHERE, source)
    assert found is not None
    return idents(found)


def idents(rows: DataFrame) -> set[bytes]:
    return {row["ident"] and bytes(row["ident"]) for row in rows.select("ident").collect()}


@pytest.mark.parametrize("source", [KEY, JSON], ids=lambda source: source.from_)
def test_ids_of_files_are_those_of_the_records_or_are_refused(
    spark: SparkSession, tmp_path: Path, source: IdSource
) -> None:
    now = datetime.now(UTC)
    for number, spellings in enumerate(by_file()):
        told = spellings[0].told
        wrong = [each for each in spellings if not each.record(source)]
        if wrong:
            path = written(tmp_path / f"{number}-refused", spellings)
            try:
                found = refused(spark, path, source, told)
            except (RequestRefused, AnalysisException):  # Spark itself refuses Parquet's type UUID
                assert wrong == spellings
            else:
                cells = [each.cell for each in wrong]
                assert found == {each.encode() if isinstance(each, str) else each for each in cells}
                with pytest.raises(RequestRefused, match=re.escape(path)):
                    read(spark, path, source, told)
        if right := [each for each in spellings if each not in wrong]:
            path = written(tmp_path / str(number), right)
            records = [record for each in right if (record := each.record(source))]
            assert read(spark, path, source, told) == packed(records, source), right
            rows = [(0, 0, now, each.key, each.value, None) for each in records]
            sent = with_identity(spark.createDataFrame(rows, RECORDS), source)
            assert known(spark, path, source, told) == idents(sent), right


def test_the_known_ids_of_an_audit_are_refused_by_its_own_options(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing but the type distinguishes the ids 17 and "17", and none of the rows has an empty id."""
    path = tmp_path / "ids.csv"
    path.write_text('id,time\n17,1\n,2\n"",3\n')

    with pytest.raises(RequestRefused, match="add --known-id-type text or --known-id-type number"):
        known(spark, str(path), JSON, None)

    as_text, as_number = (known(spark, str(path), JSON, told) for told in IdType)
    assert len(as_text) == len(as_number) == 1
    assert as_text != as_number


def test_csv_that_is_not_utf8_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "ids.csv"
    path.write_bytes(b"id,time\na,1\n\xff,2\n")

    with pytest.raises(PySparkException, match="is not UTF-8, and Spark reads CSV as text"):
        read(spark, str(path), KEY, None)
