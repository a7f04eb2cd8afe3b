"""A Spark session for all tests of a run, small so that its tasks start fast."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from dedupe_pipeline.runtime.jars import delta, iceberg, spark_kafka
from dedupe_pipeline.session import spark_session
from tests.support.patience import HANG_SECONDS

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


_SESSION = pytest.StashKey[SparkSession]()


def start() -> SparkSession:
    """Start a session with the Kafka connector and both formats of tables, or return the one that runs."""
    return spark_session(
        "tests",
        master="local[2]",
        properties={**SMALL, **_TABLES},
        jars=lambda: [*spark_kafka(), *iceberg(), *delta()],
    )


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Kill Spark's JVM if something takes longer: the call that hangs fails then.

    To interrupt the call would not do. py4j would take the answer to it, once that comes, for the answer to the next
    one, and PySpark makes a next one before it raises.
    """
    gateway = SparkContext._gateway  # noqa: SLF001 # nothing else knows its process
    assert gateway
    timer = Timer(seconds, gateway.proc.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def forget_dead_jvm() -> None:
    """Forget a session whose JVM has ended, so that another can be started."""
    gateway, context = SparkContext._gateway, SparkContext._active_spark_context  # noqa: SLF001 # PySpark never does it
    if gateway is None or gateway.proc.poll() is None:
        return
    gateway.shutdown()
    if context:
        context._jsc = None  # noqa: SLF001 # it can't be told
        context.stop()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


@pytest.fixture
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """Return a session that all tests share, because a process has one JVM of Spark.

    It ends with a test that hangs, and the next test has another.
    """
    held = pytestconfig.stash
    if _SESSION not in held:
        pytestconfig.add_cleanup(stop)
    forget_dead_jvm()
    if SparkContext._gateway is None:  # noqa: SLF001 # as above
        held[_SESSION] = start()
    with ended_after(HANG_SECONDS):
        yield held[_SESSION]


def stop() -> None:
    """Stop the session of this process, if it has one."""
    forget_dead_jvm()
    if session := SparkSession._instantiatedSession:  # noqa: SLF001 # as above
        session.stop()
