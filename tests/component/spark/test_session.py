"""The session that tests share is replaced once a call of it has hung."""

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.sql import SparkSession

from tests.support.spark.session import ended_after, spark

__all__ = ["spark"]

HANGS = "SELECT java_method('java.lang.Thread', 'sleep', 600000L)"


def test_a_call_that_hangs_fails(spark: SparkSession) -> None:
    with ended_after(2), pytest.raises((Py4JError, OSError)):
        spark.sql(HANGS).collect()


def test_the_next_test_has_a_session_that_works(spark: SparkSession) -> None:
    assert spark.range(3).count() == 3
