"""`land` into Iceberg tables of a database's catalog and on S3, and into Delta tables there, as the command is run."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dedupe_crds.exit_status import ExitStatus
from dedupe_pipeline.runtime.jars import spark_kafka
from tests.component.spark.test_land import fill
from tests.support.fixtures import CreateStream
from tests.support.layers import matrix
from tests.support.patience import HANG_SECONDS
from tests.support.postgres.server import TestDatabase, database, postgres_server
from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import KEY_ID, REGION, SECRET, TestBucket
from tests.support.spark.brought_jars import hadoop_aws, postgres_driver
from tests.support.spark.landed_table import Rows, expected, of_delta_url, of_metadata
from tests.support.spark.session import SMALL
from tests.support.traffic.streams import TestStream

__all__ = ["bucket", "database", "postgres_server", "s3_server"]

TABLE = "lake.shop.orders"
ICEBERG = ("--format", "iceberg", "--table", TABLE)
COMMAND = (str(Path(sys.executable).parent / "dedupe-pipeline"), "land")


def catalog_in(database: TestDatabase) -> dict[str, str]:
    """Return the properties of a JDBC catalog in a database."""
    url = urlsplit(database.url)
    [password_file] = parse_qs(url.query)["passfile"]
    password = Path(password_file).read_text().strip().rpartition(":")[2]
    return {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://{url.hostname}:{url.port}{url.path}",
        "jdbc.user": url.username or "",
        "jdbc.password": password,
        "jdbc.schema-version": "V1",
    }


def run_land(stream: TestStream, catalog: Mapping[str, str]) -> str:
    """Run the command for a table of a catalog; return its last line."""
    name = f"spark.sql.catalog.{TABLE.partition('.')[0]}"
    properties = {
        "spark.driver.extraClassPath": str(postgres_driver()),
        name: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{name}.{key}": value for key, value in catalog.items()},
    }
    return run_command(stream, ICEBERG, properties)


def run_command(stream: TestStream, table: Sequence[str], properties: Mapping[str, str]) -> str:
    """Run the command with properties of Spark; return its last line."""
    given = [f"--conf={key}={value}" for key, value in {**SMALL, **properties}.items()]
    done = subprocess.run(
        [*COMMAND, str(stream.manifest), *table, "--master", "local[2]", *given],
        check=False,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def rows_in(database: TestDatabase, properties: Mapping[str, str] | None = None) -> Rows:
    """Return the rows as pyiceberg reads the metadata that the catalog names."""
    [[location]] = database.rows("SELECT metadata_location FROM iceberg_tables")
    return of_metadata(str(location), properties)


@pytest.mark.matrix  # test_land_table.py
def test_a_catalog_in_a_database_has_each_record_once(
    streams: CreateStream, database: TestDatabase, tmp_path: Path
) -> None:
    stream = streams(partitions=2)
    catalog = {**catalog_in(database), "warehouse": (tmp_path / "lake").as_uri()}
    fill(stream, 100)

    assert run_land(stream, catalog) == f"landed 100 records in 1 batches in {TABLE}"
    assert rows_in(database) == expected(stream.clean())


@pytest.mark.matrix
def test_on_s3_each_record_is_there_once(
    streams: CreateStream, database: TestDatabase, bucket: TestBucket
) -> None:
    """Iceberg reaches it with its own client, whose jar the job fetches."""
    stream = streams(partitions=2)
    storage = {
        "s3.endpoint": bucket.client.meta.endpoint_url,
        "s3.access-key-id": KEY_ID,
        "s3.secret-access-key": SECRET,
    }
    catalog = {
        **catalog_in(database),
        **storage,
        "warehouse": f"s3://{bucket.name}/lake",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.path-style-access": "true",
        "client.region": REGION,
    }
    for records in (100, 50):
        fill(stream, records)
        assert run_land(stream, catalog) == f"landed {records} records in 1 batches in {TABLE}"

    assert rows_in(database, {**storage, "s3.region": REGION}) == expected(stream.clean())
    assert any(key.endswith(".parquet") for key in bucket.objects("lake/"))


@pytest.mark.matrix
def test_a_delta_table_on_s3_has_each_record_once(
    streams: CreateStream, bucket: TestBucket
) -> None:
    """By one driver: Delta's commits on S3 are not safe between several."""
    stream, place = streams(partitions=2), f"{bucket.name}/lake/orders"
    endpoint = bucket.client.meta.endpoint_url
    s3a = {
        "endpoint": endpoint,
        "endpoint.region": REGION,
        "access.key": KEY_ID,
        "secret.key": SECRET,
        "path.style.access": "true",
    }
    properties = {
        "spark.driver.extraClassPath": ":".join(map(str, hadoop_aws())),
        **{f"spark.hadoop.fs.s3a.{key}": value for key, value in s3a.items()},
    }
    table = ("--format", "delta", "--table", f"s3a://{place}")
    for records in (100, 50):
        fill(stream, records)
        last = run_command(stream, table, properties)
        assert last.startswith(f"landed {records} records in 1 batches in ")

    storage = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ALLOW_HTTP": "true",
    }
    assert of_delta_url(f"s3://{place}", storage) == expected(stream.clean())


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (lambda lake: [*ICEBERG, "--warehouse", str(lake)], "iceberg-spark-runtime-4.1"),
        matrix(lambda lake: ["--format", "delta", "--table", f"{lake}/orders"], "delta-spark_4.1"),
    ],
    ids=["iceberg", "delta"],
)
def test_a_session_without_the_jars_is_refused_with_what_to_add(
    streams: CreateStream, tmp_path: Path, options: Callable[[Path], list[str]], missing: str
) -> None:
    """As under spark-submit, whose user brings the jars."""
    jars = ",".join(map(str, spark_kafka()))
    done = subprocess.run(
        [*COMMAND, str(streams().manifest), *options(tmp_path), "--conf", f"spark.jars={jars}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == ExitStatus.USAGE, done.stderr
    assert f"has no {missing}" in done.stderr
    assert "--packages or --jars" in done.stderr
