"""Batches enter the output whole, once, and only those of its own checkpoint."""

import json
from pathlib import Path

import pytest

from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.land.parquet_sink import (
    check_checkpoint,
    lock_checkpoint,
    publish,
    write_marker,
)

TOPIC = "clean"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "output").mkdir()
    return tmp_path / "output"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint that Spark has begun, with one batch committed."""
    directory = tmp_path / "checkpoint"
    (directory / "commits").mkdir(parents=True)
    (directory / "metadata").write_text(json.dumps({"id": "query-1"}))
    (directory / "commits" / "0").touch()
    return directory


def staged(tmp_path: Path, *dates: str) -> Path:
    for date in dates:
        directory = tmp_path / "staging" / f"date={date}"
        directory.mkdir(parents=True)
        (directory / "part-0.parquet").write_text("records")
    return tmp_path / "staging"


def files(output: Path) -> list[str]:
    return sorted(str(file.relative_to(output)) for file in output.rglob("*.parquet"))


def test_each_date_of_a_batch_has_a_directory_of_its_own(tmp_path: Path, output: Path) -> None:
    staging = staged(tmp_path, "2026-11-20", "2026-11-21")

    publish(staging, output, 7)

    assert files(output) == [
        "date=2026-11-20/batch=7/part-0.parquet",
        "date=2026-11-21/batch=7/part-0.parquet",
    ]
    assert not staging.exists()


def test_what_an_earlier_try_has_published_stays_and_the_rest_is_added(
    tmp_path: Path, output: Path
) -> None:
    publish(staged(tmp_path, "2026-11-20"), output, 7)
    (output / "date=2026-11-20/batch=7/part-0.parquet").write_text("as it was")

    publish(staged(tmp_path, "2026-11-20", "2026-11-21"), output, 7)

    assert len(files(output)) == 2
    assert (output / "date=2026-11-20/batch=7/part-0.parquet").read_text() == "as it was"


def test_another_batch_of_the_same_date_is_beside_the_first(tmp_path: Path, output: Path) -> None:
    for batch in (1, 2):
        publish(staged(tmp_path, "2026-11-20"), output, batch)

    assert len(files(output)) == 2


def test_a_marked_output_goes_on_with_its_own_checkpoint(output: Path, checkpoint: Path) -> None:
    write_marker(output, checkpoint, TOPIC)

    check_checkpoint(output, checkpoint, TOPIC)


def test_an_empty_output_starts_with_a_new_checkpoint(output: Path, tmp_path: Path) -> None:
    check_checkpoint(output, tmp_path / "new", TOPIC)


def test_an_output_without_its_checkpoint_is_refused(
    output: Path, checkpoint: Path, tmp_path: Path
) -> None:
    write_marker(output, checkpoint, TOPIC)

    with pytest.raises(LandingRefused, match="another checkpoint"):
        check_checkpoint(output, tmp_path / "new", TOPIC)


def test_a_checkpoint_without_its_output_is_refused(output: Path, checkpoint: Path) -> None:
    with pytest.raises(LandingRefused, match="bring the output back"):
        check_checkpoint(output, checkpoint, TOPIC)


def test_an_output_of_another_topic_is_refused(output: Path, checkpoint: Path) -> None:
    write_marker(output, checkpoint, TOPIC)

    with pytest.raises(LandingRefused, match="holds topic 'clean', not 'other'"):
        check_checkpoint(output, checkpoint, "other")


def test_directories_of_somebody_else_are_not_added_to(output: Path, tmp_path: Path) -> None:
    (output / "date=2026-11-20").mkdir()

    with pytest.raises(LandingRefused, match="not landed here"):
        check_checkpoint(output, tmp_path / "new", TOPIC)


def test_a_checkpoint_is_used_by_one_at_a_time(tmp_path: Path) -> None:
    with (
        lock_checkpoint(tmp_path),
        pytest.raises(LandingRefused, match="another process"),
        lock_checkpoint(tmp_path),
    ):
        pass
    with lock_checkpoint(tmp_path):
        pass
