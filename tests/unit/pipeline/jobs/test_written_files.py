"""What the executors have written must be where the driver looks for it."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dedupe_pipeline.errors import NotShared
from dedupe_pipeline.jobs.written_files import check_written, local_output


def write(path: Path, rows: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({"offset": list(range(rows))}), path)


def test_all_rows_of_all_files_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "date=2026-11-20/part-0.parquet", 3)
    write(tmp_path / "date=2026-11-20/part-1.parquet", 2)
    write(tmp_path / "date=__HIVE_DEFAULT_PARTITION__/part-0.parquet", 1)
    write(tmp_path / "_temporary/0/part-9.parquet", 5)

    check_written(tmp_path, 6, tmp_path)


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_another_number_is_told(tmp_path: Path, rows: int) -> None:
    write(tmp_path / "date=2026-11-20/part-0.parquet", 3)

    with pytest.raises(NotShared, match=f"written {rows} records, and the driver finds 3"):
        check_written(tmp_path, rows, tmp_path)


def test_an_executor_that_writes_elsewhere_leaves_nothing_here(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()

    with pytest.raises(NotShared, match="written 20,000 records, and the driver finds 0"):
        check_written(tmp_path, 20_000, tmp_path)


def test_an_output_is_a_path_or_a_file_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_output(Path("lake/orders")) == tmp_path / "lake" / "orders"
    assert local_output(Path(tmp_path.as_uri())) == tmp_path
    with pytest.raises(NotShared, match="s3a:/lake/orders is not on a file system"):
        local_output(Path("s3a://lake/orders"))
