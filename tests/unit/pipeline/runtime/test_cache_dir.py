"""The directory for downloads."""

from pathlib import Path

import pytest

from dedupe_pipeline.errors import JarsUnavailable
from dedupe_pipeline.runtime.jars import cache_dir


def test_without_a_home_it_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEDUPESTREAM_CACHE", raising=False)
    monkeypatch.setenv("HOME", "")
    with pytest.raises(JarsUnavailable, match="DEDUPESTREAM_CACHE"):
        cache_dir()
    monkeypatch.setenv("DEDUPESTREAM_CACHE", "/downloads")
    assert cache_dir() == Path("/downloads")
