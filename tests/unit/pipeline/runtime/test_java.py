"""A Java runtime that will not do is told in one line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dedupe_pipeline.errors import JavaMissing
from dedupe_pipeline.runtime.java import find_java, parse_version


@pytest.fixture(autouse=True)
def look_again() -> Iterator[None]:
    find_java.cache_clear()
    yield
    find_java.cache_clear()


def java_home(directory: Path, banner: str) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = java_home(tmp_path, 'openjdk version "21.0.2" 2024-01-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert find_java() == java


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_home(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaMissing, match=r"is Java 11; Kafka and Spark need Java 17 or newer"):
        find_java()


def test_no_java_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(JavaMissing, match="No java on PATH; install Java 17"):
        find_java()


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_202"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("command not understood", None),
    ],
)
def test_the_major_version_is_read_from_the_banner(banner: str, version: int | None) -> None:
    assert parse_version(banner) == version
