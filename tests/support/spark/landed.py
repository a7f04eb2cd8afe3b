"""The rows that `land` has written, and those that it should have."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.dataset

from tests.support.checker.record import Record


def landed(output: Path) -> Counter[tuple[object, ...]]:
    """Return every row of all Parquet files below, with its directory's date."""
    if not output.exists():
        return Counter()
    table = pyarrow.dataset.dataset(output, format="parquet", partitioning="hive").to_table()
    return Counter(
        (
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
            row["date"],
        )
        for row in table.to_pylist()
    )


def expected(records: list[Record]) -> Counter[tuple[object, ...]]:
    """Return the rows of these records."""
    return Counter(
        (
            record.partition,
            record.offset,
            record.timestamp_ms,
            record.key,
            record.value,
            record.headers,
            f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=record.timestamp_ms):%F}",
        )
        for record in records
    )
