"""Convert records to Arrow batches with the columns of `dedupe_pipeline.source`.

A timestamp outside of the years 1 to 9999 is null, because no row may stop a read for ever: Spark's type ends in the
year 294247, which milliseconds in nanoseconds' place exceed, and Python's type in 9999. So is that of a record without
one, which Kafka marks by -1. The number as Kafka has it is in a separate column if its name is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message
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

from dedupe_kafka.headers import headers_of_all

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
_NO_TIMESTAMP = -1  # KIP-32
_YEAR_1_MS = -62_135_596_800_000
_YEAR_10000_MS = 253_402_300_800_000
_ARROW_FIELDS = (
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", _ARROW_TIME),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("headers", _ARROW_HEADERS),
)


@dataclass(frozen=True, kw_only=True)
class AddedColumns:
    """The names of additional columns, None for none.

    `value` is the column of the filters' values, null if not UTF-8, `timestamp_ms` that of the timestamps in
    milliseconds since 1970 as Kafka has them, whatever they are.
    """

    value: str | None = None
    timestamp_ms: str | None = None


NO_COLUMNS = AddedColumns()


def spark_schema(added: AddedColumns) -> StructType:
    """Return `dedupe_pipeline.source.COLUMNS`, and the additional columns."""
    extra = [(added.timestamp_ms, LongType()), (added.value, StringType())]
    return StructType([*_FIELDS, *(StructField(name, kind) for name, kind in extra if name)])


def to_arrow(
    records: Sequence[Message], values: Sequence[bytes | None] | None, added: AddedColumns
) -> pa.RecordBatch:
    """Return records of one partition, which have these `values`, as a batch."""
    partition = records[0].partition()
    timestamps_ms = pa.array([_timestamp_ms(record) for record in records], pa.int64())
    columns = [
        pa.array(np.full(len(records), partition, np.int32)),
        pa.array([record.offset() for record in records], pa.int64()),
        _timestamps(timestamps_ms),
        pa.array([record.key() for record in records], pa.binary()),
        pa.array([record.value() for record in records], pa.binary()),
        _headers(records),
    ]
    fields = list(_ARROW_FIELDS)
    if added.timestamp_ms is not None:
        columns.append(timestamps_ms)
        fields.append((added.timestamp_ms, pa.int64()))
    if added.value is not None:
        columns.append(pa.array([_text(value) for value in values or ()], pa.string()))
        fields.append((added.value, pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _timestamp_ms(record: Message) -> int | None:
    kind, milliseconds = record.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds


def _timestamps(timestamps_ms: pa.Array) -> pa.Array:
    """Return timestamps, null outside of the years 1 to 9999 and where there is none."""
    in_range = pc.and_(
        pc.greater_equal(timestamps_ms, _YEAR_1_MS), pc.less(timestamps_ms, _YEAR_10000_MS)
    )
    is_time = pc.and_(in_range, pc.not_equal(timestamps_ms, _NO_TIMESTAMP))
    known_ms = pc.if_else(is_time, timestamps_ms, pa.scalar(None, pa.int64()))
    return known_ms.cast(pa.timestamp("ms", "UTC")).cast(_ARROW_TIME)


def _headers(records: Sequence[Message]) -> pa.Array:
    """Return an array of (key, value) for each record, null without headers."""
    rows = headers_of_all(records)
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
