"""Batches enter the output whole and once."""

from pathlib import Path

import pytest

from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.land.parquet_sink import lock_checkpoint, publish


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "output").mkdir()
    return tmp_path / "output"


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


def test_a_checkpoint_is_used_by_one_at_a_time(tmp_path: Path) -> None:
    with (
        lock_checkpoint(tmp_path),
        pytest.raises(LandingRefused, match="another process"),
        lock_checkpoint(tmp_path),
    ):
        pass
    with lock_checkpoint(tmp_path):
        pass
