"""Convert records to Arrow batches with the columns of `dedupe_pipeline.source`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_FIELDS = (
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("headers", ArrayType(_HEADER)),
)
_ARROW_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_ARROW_HEADERS = pa.list_(pa.field("element", _ARROW_HEADER))
_ARROW_TIME = pa.timestamp("us", tz="UTC")
_ARROW_FIELDS = (
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", _ARROW_TIME),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("headers", _ARROW_HEADERS),
)


def spark_schema(filter_column: str | None) -> StructType:
    """Return `dedupe_pipeline.source.COLUMNS`, and the filter column if it is named."""
    extra = [] if filter_column is None else [StructField(filter_column, StringType())]
    return StructType([*_FIELDS, *extra])


def to_arrow(
    records: Sequence[Message], values: Sequence[bytes | None] | None, filter_column: str | None
) -> pa.RecordBatch:
    """Return records of one partition as a batch.

    `filter_column` adds a column with their `values`, null if not UTF-8.
    """
    partition = records[0].partition()
    milliseconds = pa.array(
        [record.timestamp()[1] for record in records], pa.timestamp("ms", "UTC")
    )
    columns = [
        pa.array(np.full(len(records), partition, np.int32)),
        pa.array([record.offset() for record in records], pa.int64()),
        milliseconds.cast(_ARROW_TIME),
        pa.array([record.key() for record in records], pa.binary()),
        pa.array([record.value() for record in records], pa.binary()),
        _headers(records),
    ]
    fields = list(_ARROW_FIELDS)
    if filter_column is not None:
        columns.append(pa.array([_text(value) for value in values or ()], pa.string()))
        fields.append((filter_column, pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _headers(records: Sequence[Message]) -> pa.Array:
    """Return an array of (key, value) for each record, null without headers."""
    rows: list[Any] = [
        record.headers() for record in records
    ]  # lists; the client's types are wider
    if not any(rows):
        return pa.nulls(len(rows), _ARROW_HEADERS)
    lengths = [len(row or ()) for row in rows]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    none = np.array([*(row is None for row in rows), False])
    pairs = [pair for row in rows for pair in row or ()]
    headers = pa.StructArray.from_arrays(
        [
            pa.array([key for key, _ in pairs], pa.string()),
            pa.array([value for _, value in pairs], pa.binary()),
        ],
        fields=list(_ARROW_HEADER),
    )
    return pa.ListArray.from_arrays(
        pa.array(starts, pa.int32(), mask=none), headers, type=_ARROW_HEADERS
    )


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
