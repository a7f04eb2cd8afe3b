"""A Spark session for all tests of a run, small so that its tasks start fast."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dedupe_pipeline.session import spark_session

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    # In a short run the last tier of compilation costs more than it saves.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start a session with the Kafka connector, shared by all importing modules."""
    session = spark_session("tests", master="local[2]", properties=SMALL)
    yield session
    session.stop()
