"""A session is started here, with the properties that the jobs need."""

import pytest

from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.session import spark_session


def test_a_server_of_spark_connect_is_refused_before_anything_starts() -> None:
    with pytest.raises(RequestRefused, match="makes no session of Spark Connect"):
        spark_session("orders", master="sc://spark:15002")


def test_so_is_one_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark:15002")

    with pytest.raises(RequestRefused, match=r"SparkSession\.builder\.remote"):
        spark_session("orders")
