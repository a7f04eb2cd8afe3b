"""The directory for downloads."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dedupe_pipeline.errors import JarsUnavailable
from dedupe_pipeline.runtime.jars import cache_dir, delta, iceberg, kafka_broker, spark_kafka


def test_without_a_home_it_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEDUPESTREAM_CACHE", raising=False)
    monkeypatch.setenv("HOME", "")
    with pytest.raises(JarsUnavailable, match="DEDUPESTREAM_CACHE"):
        cache_dir()
    monkeypatch.setenv("DEDUPESTREAM_CACHE", "/downloads")
    assert cache_dir() == Path("/downloads")


@pytest.mark.parametrize("jars_of", [spark_kafka, iceberg, delta, kafka_broker])
@pytest.mark.parametrize("name", ["a:b", "a\udcff"])
def test_a_directory_that_java_takes_for_others_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, jars_of: Callable[[], list[Path]]
) -> None:
    monkeypatch.setenv("DEDUPESTREAM_CACHE", f"/downloads/{name}")

    with pytest.raises(JarsUnavailable, match="another directory in DEDUPESTREAM_CACHE") as refused:
        jars_of()

    assert repr(f"/downloads/{name}") in str(refused.value)


@pytest.mark.parametrize("jars_of", [spark_kafka, iceberg, delta])
@pytest.mark.parametrize("name", ["a,b", "a#b", "a{b}", "a[b]", "a*b", "a?b"])
def test_a_directory_that_spark_takes_for_others_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, jars_of: Callable[[], list[Path]]
) -> None:
    monkeypatch.setenv("DEDUPESTREAM_CACHE", f"/downloads/{name}")

    with pytest.raises(JarsUnavailable, match="another directory in DEDUPESTREAM_CACHE"):
        jars_of()


def test_a_home_of_such_a_name_is_refused_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEDUPESTREAM_CACHE", raising=False)
    monkeypatch.setenv("HOME", "/home/a:b")

    with pytest.raises(JarsUnavailable, match="another directory in DEDUPESTREAM_CACHE"):
        spark_kafka()
