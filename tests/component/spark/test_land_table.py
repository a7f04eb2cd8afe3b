"""`land` into tables of Iceberg and Delta Lake writes exactly the topic's records, as other engines see them."""

import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.land.job import LandResult
from dedupe_pipeline.jobs.land.table_job import TableOptions, land_table
from dedupe_pipeline.table_target import TableFormat, TableTarget
from tests.component.spark.test_land import fill
from tests.support.checker.record import Message
from tests.support.fixtures import CreateStream
from tests.support.layers import matrix
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.processes.process_group import process_group
from tests.support.spark import table_landing
from tests.support.spark.landed_table import Rows, expected, of_other_engine, of_spark
from tests.support.spark.session import spark
from tests.support.traffic.streams import TestStream
from tests.support.traffic.topic_changes import add_partitions, create_topic, delete_topic
from tests.support.traffic.traffic import produce_in_transaction

__all__ = ["spark"]

REPOSITORY = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
PARTITIONS = 2
ICEBERG, DELTA = TableFormat


@dataclass(frozen=True, kw_only=True)
class Place:
    """A new table in a directory of its own; `name` is that for SQL."""

    target: TableTarget
    name: str
    directory: Path
    warehouse: Path

    def rows(self, spark: SparkSession) -> Rows:
        """Return the rows that Spark and another engine read, which must be the same."""
        found = of_spark(spark, self.name)
        assert of_other_engine(self.target.format, self.directory) == found
        return found


def place(spark: SparkSession, table_format: TableFormat, tmp_path: Path) -> Place:
    """Name a table; of Iceberg in a new catalog of the session."""
    warehouse = tmp_path / "my lake"
    if table_format is DELTA:
        directory = warehouse / "orders"
        target = TableTarget(format=DELTA, name=str(directory))
        return Place(
            target=target, name=f"delta.`{directory}`", directory=directory, warehouse=warehouse
        )
    catalog = f"lake_{uuid4().hex[:8]}"
    target = TableTarget(format=ICEBERG, name=f"{catalog}.shop.orders", warehouse=str(warehouse))
    for name, value in target.properties({}).items():
        if name.startswith("spark.sql.catalog."):
            spark.conf.set(name, value)
    directory = warehouse / "shop/orders"
    return Place(target=target, name=target.name, directory=directory, warehouse=warehouse)


@pytest.fixture(params=[ICEBERG, DELTA], name="table")
def _table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Place:
    return place(spark, request.param, tmp_path)


# For what does not depend on how a format commits; and for kills, whose two Spark sessions take a minute each.
of_one_format = pytest.mark.parametrize("table", [ICEBERG, matrix(DELTA)], indirect=True)


def land(
    spark: SparkSession, stream: TestStream, table: Place, options: TableOptions | None = None
) -> LandResult:
    """Land in this process, with the batch size of the others."""
    return land_table(
        spark,
        load_manifest(stream.manifest),
        table.target,
        options,
        max_offsets_per_trigger=table_landing.MAX_OFFSETS_PER_TRIGGER,
    )


def process(
    stream: TestStream, table: Place, *step: str
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Start a landing process in its own group, which is killed at the end."""
    module = [sys.executable, "-m", "tests.support.spark.table_landing"]
    where = [str(stream.manifest), str(table.target.format), table.target.name]
    return process_group([*module, *where, str(table.warehouse), *step])


@pytest.mark.parametrize(
    "table", [pytest.param(ICEBERG, marks=pytest.mark.proof), DELTA], indirect=True
)
def test_what_is_committed_lands_once_in_few_files(
    spark: SparkSession, streams: CreateStream, table: Place
) -> None:
    stream = streams(partitions=PARTITIONS)
    fill(stream, 1_000)

    first = land(spark, stream, table)
    again = land(spark, stream, table)

    assert table.rows(spark) == expected(stream.clean())
    assert (first.records, first.batches > 1) == (1_000, True)
    assert again == LandResult(batches=0, records=0)
    files = list(table.directory.rglob("*.parquet"))
    days = 3
    assert len(files) <= first.batches * days, "one file for each day of a batch"


@of_one_format
@pytest.mark.parametrize(
    "steps",
    [("after the commit",), matrix(table_landing.STEPS)],
    ids=["after the commit", "each"],
)
def test_killed_at_each_step_nothing_lands_twice_or_not_at_all(
    spark: SparkSession, streams: CreateStream, table: Place, steps: Sequence[str]
) -> None:
    stream = streams(partitions=PARTITIONS)
    fill(stream, 4_000)
    topic = expected(stream.clean())

    for step in steps:
        with process(stream, table, step) as dying:
            assert dying.wait(HANG_SECONDS) == -signal.SIGKILL, step
        seen = table.rows(spark)
        assert seen <= topic, step
        assert 0 < seen.total() < topic.total(), step

    land(spark, stream, table)
    assert table.rows(spark) == topic


@of_one_format
def test_a_process_that_was_frozen_appends_nothing_when_it_goes_on(
    spark: SparkSession, streams: CreateStream, table: Place
) -> None:
    """Another process has landed its batch, and all others, meanwhile."""
    stream = streams(partitions=PARTITIONS)
    fill(stream, 2_000)

    with process(stream, table, "before the commit", str(int(signal.SIGSTOP))) as frozen:
        stat = Path(f"/proc/{frozen.pid}/stat")
        wait_for(
            lambda: stat.read_text().rsplit(")")[-1].split()[0] == "T",
            "the process is frozen",
        )
        first = table.rows(spark).total()
        assert land(spark, stream, table).records == 2_000 - first
        frozen.send_signal(signal.SIGCONT)
        output, _ = frozen.communicate(timeout=HANG_SECONDS)

    assert output.splitlines()[-1] == table_landing.OVERTAKEN
    assert table.rows(spark) == expected(stream.clean())


def test_the_offsets_survive_compaction_and_expired_snapshots(
    spark: SparkSession, streams: CreateStream, table: Place
) -> None:
    stream = streams(partitions=PARTITIONS)
    fill(stream, 150)
    land(spark, stream, table, TableOptions(compact_every=1))
    if table.target.format is ICEBERG:
        catalog = table.target.catalog
        spark.sql(
            f"CALL {catalog}.system.rewrite_data_files(table => 'shop.orders', options => "
            "map('rewrite-all', 'true'))"
        )
        spark.sql(
            f"CALL {catalog}.system.expire_snapshots(table => 'shop.orders', "
            "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
        )
        [snapshot] = spark.table(f"{table.name}.snapshots").collect()
        assert "dedupestream.landed" not in snapshot["summary"]

    assert land(spark, stream, table).records == 0
    fill(stream, 50)
    assert land(spark, stream, table).records == 50
    assert table.rows(spark) == expected(stream.clean())


@pytest.mark.parametrize("kept", [matrix(0), 1], ids=["none", "the first"])
def test_after_a_rollback_what_was_rolled_back_lands_again(
    spark: SparkSession, streams: CreateStream, tmp_path: Path, kept: int
) -> None:
    """Before its first batch the table has a row of somebody else."""
    table = place(spark, ICEBERG, tmp_path)
    spark.sql(f"CREATE TABLE {table.name} (note STRING) USING iceberg")
    spark.sql(f"INSERT INTO {table.name} VALUES ('mine')")  # noqa: S608 (the name is of this test)
    stream = streams(partitions=PARTITIONS)
    for _ in range(2):
        fill(stream, 20)
        land(spark, stream, table)
    snapshots = spark.table(f"{table.name}.snapshots").orderBy("committed_at").collect()
    theirs, _start, first, _second = snapshots
    at = first if kept else theirs
    call = f"{table.target.catalog}.system.rollback_to_snapshot('shop.orders', {at['snapshot_id']})"
    spark.sql(f"CALL {call}")

    assert land(spark, stream, table).records == 40 - 20 * kept
    assert spark.table(table.name).where("note = 'mine'").count() == 1
    spark.sql(f"DELETE FROM {table.name} WHERE note = 'mine'")  # noqa: S608
    assert table.rows(spark) == expected(stream.clean())


def test_a_table_that_is_written_anew_keeps_its_offsets(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    table = place(spark, ICEBERG, tmp_path)
    stream = streams(partitions=PARTITIONS)
    fill(stream, 20)
    land(spark, stream, table)
    spark.table(table.name).writeTo(table.name).using("iceberg").createOrReplace()

    assert land(spark, stream, table).records == 0
    assert table.rows(spark) == expected(stream.clean())


def test_a_delta_table_of_the_catalog_lands_by_its_name(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    schema, directory = f"shop_{uuid4().hex[:8]}", tmp_path / "shop"
    spark.sql(f"CREATE SCHEMA {schema} LOCATION '{directory}'")
    target = TableTarget(format=DELTA, name=f"{schema}.orders")
    table = Place(
        target=target, name=target.name, directory=directory / "orders", warehouse=directory
    )
    stream = streams(partitions=PARTITIONS)
    for records in (20, 10):
        fill(stream, records)
        assert land(spark, stream, table).records == records

    assert land(spark, stream, table).records == 0
    assert table.rows(spark) == expected(stream.clean())
    spark.sql(f"DROP SCHEMA {schema} CASCADE")


def test_a_delta_table_that_was_restored_is_refused(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    table = place(spark, DELTA, tmp_path)
    stream = streams(partitions=PARTITIONS)
    for _ in range(2):
        fill(stream, 100)
        land(spark, stream, table)
    spark.sql(f"RESTORE TABLE {table.name} TO VERSION AS OF 1")

    with pytest.raises(LandingRefused, match="was restored to an earlier version"):
        land(spark, stream, table)


@of_one_format
def test_a_topic_that_is_created_again_is_refused(
    spark: SparkSession, streams: CreateStream, table: Place
) -> None:
    stream = streams(partitions=PARTITIONS)
    fill(stream, 50)
    land(spark, stream, table)
    of_first = table.rows(spark)

    delete_topic(stream, stream.output_topic)
    create_topic(stream, stream.output_topic, PARTITIONS)
    fill(stream, 500)
    with pytest.raises(LandingRefused, match="was deleted and created again"):
        land(spark, stream, table)
    assert table.rows(spark) == of_first


@pytest.mark.matrix  # those of test_land.py
@of_one_format
def test_records_of_added_partitions_land_once(
    spark: SparkSession, streams: CreateStream, table: Place
) -> None:
    stream = streams(partitions=PARTITIONS)
    fill(stream, 50)
    land(spark, stream, table)
    add_partitions(stream.bootstrap_servers, stream.output_topic, PARTITIONS + 1)
    sent = [Message(PARTITIONS, b"k", b"v", timestamp_ms=n) for n in range(20)]
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, sent, commit=True)

    assert land(spark, stream, table).records == 20
    assert table.rows(spark) == expected(stream.clean())


@of_one_format
def test_fields_are_added_and_neither_removed_nor_changed(
    spark: SparkSession, streams: CreateStream, table: Place
) -> None:
    stream = streams()

    def land_json(value: bytes, schema: str | None) -> LandResult:
        sent = [Message(0, b"k", value, timestamp_ms=1)]
        produce_in_transaction(stream.bootstrap_servers, stream.output_topic, sent, commit=True)
        return land(spark, stream, table, TableOptions(json_schema=schema))

    land_json(b'{"n": 1, "m": 5}', None)
    land_json(b'{"n": 2, "m": 5}', "n INT")
    assert land_json(b"{", "m STRING, n INT").corrupt == 1
    land_json(b'{"n": 4, "m": "four"}', "m STRING, n INT")
    with pytest.raises(LandingRefused, match=r"column json\.n is int .* would be string"):
        land_json(b'{"n": 5}', "n STRING, m STRING")
    with pytest.raises(LandingRefused, match=r"the table has json\.m, and --json-schema has not"):
        land_json(b'{"n": 5}', "n INT")
    with pytest.raises(LandingRefused, match="the table has json, _corrupt"):
        land_json(b'{"n": 5}', None)
    assert land(spark, stream, table, TableOptions(json_schema="n INT, m STRING")).records == 3

    rows = spark.table(table.name).orderBy("offset").limit(4).select("json.n", "json.m", "_corrupt")
    assert [tuple(row) for row in rows.collect()] == [
        *((None, None, None), (2, None, None), (None, None, "{"), (4, "four", None)),
    ]
    assert table.rows(spark) == expected(stream.clean())


@of_one_format
def test_a_table_is_partitioned_by_the_day_and_what_else_is_asked_for(
    spark: SparkSession, streams: CreateStream, table: Place
) -> None:
    stream = streams(partitions=PARTITIONS)
    fill(stream, 50)
    land(spark, stream, table, TableOptions(partition_by=["`partition`"]))

    folders = {path.parent.name for path in table.directory.rglob("*.parquet")}
    days = {path.parent.parent.name.split("=")[0] for path in table.directory.rglob("*.parquet")}
    assert folders == {"partition=0", "partition=1"}
    assert days == {"timestamp_day" if table.target.format is ICEBERG else "date"}


@of_one_format
def test_rows_that_a_table_has_already_stay(
    spark: SparkSession, streams: CreateStream, table: Place
) -> None:
    stream = streams(partitions=PARTITIONS)
    using = table.target.format.value
    spark.sql(f"CREATE TABLE {table.name} (note STRING, `offset` BIGINT) USING {using}")
    spark.sql(f"INSERT INTO {table.name} VALUES ('mine', -1)")  # noqa: S608 (the name is of this test)
    fill(stream, 50)

    assert land(spark, stream, table).records == 50

    found = table.rows(spark)
    assert found.total() == 51
    assert spark.table(table.name).where("note = 'mine'").count() == 1
    assert land(spark, stream, table).records == 0


def test_the_command_in_the_readme_lands_in_an_iceberg_table(
    streams: CreateStream, tmp_path: Path
) -> None:
    readme = (REPOSITORY / "README.md").read_text()
    [command] = re.findall(
        r"^\.venv/bin/(dedupe-pipeline land (?:.*\\\n)+.*)$", readme, re.MULTILINE
    )
    assert command.count("\n") == 2, "three lines"
    stream = streams(partitions=PARTITIONS)
    fill(stream, 100)
    (tmp_path / "stream.yaml").write_text(stream.manifest.read_text())

    done = subprocess.run(
        ["bash", "-c", f"{BIN}/{command}"],  # noqa: S607 # any bash
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )

    assert done.returncode == 0, done.stderr
    assert "landed 100 records in 1 batches in lake.shop.orders" in done.stdout
    found = of_other_engine(ICEBERG, tmp_path / "lake/shop/orders")
    assert found == expected(stream.clean())
