"""The rows of a table that `land` has written, as Spark and as another engine read them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from dedupe_pipeline.runtime.hadoop_paths import spark_path
from dedupe_pipeline.table_target import TableFormat
from tests.support.checker.record import Record

Rows = Counter[tuple[object, ...]]
_COLUMNS = ["partition", "offset", "timestamp", "key", "value", "headers"]


def of_spark(spark: SparkSession, name: str) -> Rows:
    """Return the rows as Spark reads them."""
    spark.sql(f"REFRESH TABLE {name}")
    return _rows(spark.table(name).select(*_COLUMNS).toArrow())


def of_other_engine(table_format: TableFormat, directory: Path) -> Rows:
    """Return the rows as pyiceberg reads the newest metadata of a Hadoop catalog, or delta-rs a Delta table."""
    if table_format is TableFormat.DELTA:
        return of_delta_url(str(directory))
    versions = (directory / "metadata").glob("v*.metadata.json")
    newest = max(versions, key=lambda path: int(path.name.split(".")[0][1:]))
    return of_metadata(spark_path(newest))


def of_delta_url(url: str, storage: Mapping[str, str] | None = None) -> Rows:
    """Return the rows of a Delta table as delta-rs reads them."""
    table = deltalake.DeltaTable(url, storage_options=dict(storage or {}))
    return _rows(table.to_pyarrow_table(columns=_COLUMNS))


def of_metadata(location: str, properties: Mapping[str, str] | None = None) -> Rows:
    """Return the rows of an Iceberg table's metadata file as pyiceberg reads them."""
    table = StaticTable.from_metadata(location, dict(properties or {}))
    return _rows(table.scan(selected_fields=tuple(_COLUMNS)).to_arrow())


def expected(records: Iterable[Record]) -> Rows:
    """Return the rows of these records."""
    return Counter(
        (r.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records
    )


def _rows(table: pa.Table) -> Rows:
    return Counter(map(_row, table.to_pylist()))


def _row(row: Mapping[str, Any]) -> tuple[object, ...]:
    time: datetime | None = row["timestamp"]
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    return (
        row["partition"],
        row["offset"],
        time and _millis(time),
        row["key"],
        row["value"],
        headers,
    )


def _millis(time: datetime) -> int:
    return (time - datetime.fromtimestamp(0, time.tzinfo)) // timedelta(milliseconds=1)
