"""A Spark session for all tests of a run, small so that its tasks start fast."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dedupe_pipeline.runtime.jars import delta, iceberg, spark_kafka
from dedupe_pipeline.session import spark_session

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    # To compile Java for each query takes longer than to interpret it for some hundred rows. Commands as a
    # user types them, which some tests run, have Spark's default.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
    "spark.databricks.delta.snapshotPartitions": "1",
    # In a short run the last tier of compilation costs more than it saves; alone, the first one gets less room for code
    # than Spark needs.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:ReservedCodeCacheSize=240m",
}
LOCAL = ("--master=local[2]", *(f"--conf={name}={value}" for name, value in SMALL.items()))
"""The options of a command that runs such a session of its own."""

_TABLES = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
    "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start a session with the Kafka connector and both formats of tables.

    All importing modules share it, because a process has one JVM of Spark.
    """
    session = spark_session(
        "tests",
        master="local[2]",
        properties={**SMALL, **_TABLES},
        jars=lambda: [*spark_kafka(), *iceberg(), *delta()],
    )
    yield session
    session.stop()
