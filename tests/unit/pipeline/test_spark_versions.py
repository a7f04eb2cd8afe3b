"""The jars follow the pyspark that is installed."""

import json
from pathlib import Path

import pytest

from dedupe_pipeline.errors import JarsUnavailable
from dedupe_pipeline.runtime import jars, spark_versions


@pytest.mark.parametrize(
    ("pyspark", "connector"),
    [
        ("3.5.9", "spark-sql-kafka-0-10_2.12:3.5.7"),
        ("4.0.0", "spark-sql-kafka-0-10_2.13:4.0.4"),
        ("4.1.4", "spark-sql-kafka-0-10_2.13:4.1.3"),
        ("4.2.1", "spark-sql-kafka-0-10_2.13:4.2.0"),
    ],
)
def test_the_connector_is_that_of_the_minor_version(
    pyspark: str, connector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_versions, "version", {"pyspark": pyspark}.__getitem__)

    assert spark_versions.installed().connector[0] == f"org.apache.spark:{connector}"


@pytest.mark.parametrize("pyspark", ["3.4.9", "4.3.0", "5.0.0"])
def test_a_spark_without_a_connector_is_refused_with_those_that_have_one(
    pyspark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_versions, "version", {"pyspark": pyspark}.__getitem__)

    with pytest.raises(JarsUnavailable, match=rf"pyspark {pyspark} .*3\.5, 4\.0, 4\.1, 4\.2"):
        spark_versions.installed()


def test_each_jar_of_each_version_is_locked() -> None:
    locked = json.loads((Path(jars.__file__).parent / "jars.json").read_text())
    for minor, spark in spark_versions.SUPPORTED.items():
        files = {"-".join(each.split(":")[1:]) + ".jar" for each in spark.connector}
        assert locked[f"spark-kafka-{minor}"].keys() == files
