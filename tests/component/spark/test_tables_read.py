"""`audit --landed` judges a table, and `bootstrap` reads ids from one."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.audit import AuditResult, audit
from dedupe_pipeline.jobs.bootstrap.job import PastIds, bootstrap
from dedupe_pipeline.table_target import TableFormat
from tests.component.spark.test_audit import CLEAN, PARTITIONS, RAW, defects, filled
from tests.component.spark.test_bootstrap import HOUR_MS, orders
from tests.component.spark.test_land_table import Place, land, place
from tests.support.fixtures import CreateStream
from tests.support.layers import matrix
from tests.support.spark.session import spark
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import produce_in_transaction

__all__ = ["spark"]


@pytest.fixture(params=[TableFormat.ICEBERG, matrix(TableFormat.DELTA)], name="table")
def _table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Place:
    return place(spark, request.param, tmp_path)


def judged(spark: SparkSession, stream: TestStream, table: Place) -> AuditResult:
    return audit(spark, load_manifest(stream.manifest), landed=table.target)


def test_a_landed_table_is_judged_instead_of_the_topic(
    spark: SparkSession, streams: CreateStream, table: Place
) -> None:
    stream = filled(streams(partitions=PARTITIONS), RAW[:40], CLEAN[:0])
    half = len(CLEAN) // 2
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, CLEAN[:half], commit=True)
    stream.send(RAW[40:])
    land(spark, stream, table)
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, CLEAN[half:], commit=True)
    # The second half is read from the topic.
    assert judged(spark, stream, table).is_clean
    land(spark, stream, table)
    assert judged(spark, stream, table).is_clean

    rows = spark.table(table.name).where("partition = 0").orderBy("offset").limit(2).collect()
    lost, again = (f"partition = 0 AND offset = {row['offset']}" for row in rows)
    spark.sql(f"DELETE FROM {table.name} WHERE {lost}")  # noqa: S608 (of this test)
    assert defects(*judged(spark, stream, table).partitions) == {"lost": 1}
    assert audit(spark, load_manifest(stream.manifest)).is_clean
    copy = f"SELECT * FROM {table.name} WHERE {again}"  # noqa: S608 (of this test)
    spark.sql(f"INSERT INTO {table.name} {copy}")
    assert defects(*judged(spark, stream, table).partitions) == {"lost": 1, "duplicated": 1}


def test_a_table_in_which_nothing_has_landed_is_refused(
    spark: SparkSession, streams: CreateStream, table: Place
) -> None:
    stream = filled(streams(partitions=PARTITIONS), RAW, CLEAN)
    spark.sql(f"CREATE TABLE {table.name} (note STRING) USING {table.target.format.value}")

    with pytest.raises(LandingRefused, match="nothing has landed"):
        judged(spark, stream, table)


def test_ids_of_a_table_are_those_of_its_rows(
    spark: SparkSession, streams: CreateStream, table: Place, tmp_path: Path
) -> None:
    stream = streams(partitions=PARTITIONS)
    sent = orders(0, 100) + orders(100, 110, age_ms=29 * 24 * HOUR_MS)
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, sent, commit=True)
    land(spark, stream, table)
    past = PastIds(
        source=f"{table.target.format.value}:{table.target.name}",
        warehouse=table.target.warehouse,
        id_column="key",
        time_column="timestamp",
    )

    made = bootstrap(spark, load_manifest(stream.manifest), past, tmp_path / "made")

    assert (made.records, made.ids, made.out_of_time) == (110, 100, 10)
