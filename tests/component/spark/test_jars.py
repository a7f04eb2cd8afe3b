"""Jars are fetched once, by the first process, and only locked jars are accepted."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dedupe_pipeline.errors import JarsUnavailable
from dedupe_pipeline.runtime import jars, spark_versions
from tests.support.patience import HANG_SECONDS


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache without jars that reuses what Ivy has fetched before."""
    jars.kafka_broker()
    (tmp_path / "ivy").symlink_to(jars.cache_dir() / "ivy")
    monkeypatch.setenv("DEDUPESTREAM_CACHE", str(tmp_path))
    return tmp_path


def test_of_two_processes_at_once_one_fetches_and_both_have_the_jars(empty_cache: Path) -> None:
    command = [
        *(sys.executable, "-c"),
        "from dedupe_pipeline.runtime.jars import kafka_broker; print(*kafka_broker(), sep='\\n')",
    ]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    (first, first_said), (second, second_said) = [
        each.communicate(timeout=HANG_SECONDS) for each in both
    ]

    assert first == second
    assert all(Path(jar).is_file() for jar in first.split())
    assert (first_said + second_said).count("Fetching the jars of kafka-broker") == 1
    assert len(list((empty_cache / "jars").glob("kafka-broker-*"))) == 1


def test_a_jar_that_is_not_the_locked_one_is_refused_and_not_kept(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = json.loads((Path(jars.__file__).parent / "jars.json").read_text())
    sums["kafka-broker"]["kafka-clients-4.3.1.jar"] = "0" * 64
    locked = empty_cache / "jars.json"
    locked.write_text(json.dumps(sums))
    monkeypatch.setattr(jars, "_SUMS", locked)

    with pytest.raises(JarsUnavailable, match=r"kafka-clients-4\.3\.1\.jar differ"):
        jars.kafka_broker()

    assert not list((empty_cache / "jars").glob("kafka-broker-*"))


def test_what_does_not_exist_is_told_by_its_name(empty_cache: Path) -> None:
    assert empty_cache.is_dir()
    with pytest.raises(JarsUnavailable, match=r"no-such-artifact;1: not found"):
        jars.resolve("nothing", ["org.apache.kafka:no-such-artifact:1"])


@pytest.mark.parametrize("tables", [jars.iceberg, jars.delta])
def test_a_version_of_spark_without_tables_is_refused_by_name(
    tables: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_versions, "version", lambda _: "4.2.0")

    with pytest.raises(JarsUnavailable, match=r"tables need Spark 4\.1, and pyspark 4\.2\.0"):
        tables()


def test_the_jars_of_tables_are_fetched_when_they_are_asked_for(empty_cache: Path) -> None:
    assert empty_cache.is_dir()

    assert [jar.name for jar in jars.iceberg()] == ["iceberg-spark-runtime-4.1_2.13-1.12.0.jar"]
    assert "delta-spark_4.1_2.13-4.4.0.jar" in {jar.name for jar in jars.delta()}
