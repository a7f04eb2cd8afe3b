"""What peers are made of is made once, again when it changes, and never taken half finished."""

from pathlib import Path

import pytest

from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.peers.install import _once


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEDUPESTREAM_CACHE", str(tmp_path))
    return tmp_path


def write_one(target: Path) -> None:
    (target / "made").write_text("1")


def never(target: Path) -> None:
    raise AssertionError(f"{target} is made again")


def test_it_is_made_once() -> None:
    first = _once("flink", [b"lock"], write_one)

    assert _once("flink", [b"lock"], never) == first
    assert (first / "made").read_text() == "1"


def test_another_lock_makes_another(cache: Path) -> None:
    assert _once("flink", [b"1"], write_one) != _once("flink", [b"2"], write_one)
    assert len(list((cache / "peers").iterdir())) == 2


def test_what_was_interrupted_is_made_from_the_start() -> None:
    def fail(target: Path) -> None:
        (target / "half").touch()
        raise BenchmarkFailed("no network")

    with pytest.raises(BenchmarkFailed):
        _once("flink", [b"lock"], fail)

    assert not (_once("flink", [b"lock"], write_one) / "half").exists()
