"""One Spark session for all tests of a run, small so that starting its tasks costs little."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dedupe_pipeline.session import spark_session

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    # The last tier of compilation costs a short life more than it saves.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with the Kafka connector; each module that imports this shares the same one."""
    session = spark_session("tests", master="local[2]", properties=SMALL)
    yield session
    session.stop()
