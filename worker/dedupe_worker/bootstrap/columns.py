"""The columns of Parquet and CSV files, as ids, times and partitions.

`files` calls this.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.column_ids import ColumnKind, IdType, Refused, id_column
from dedupe_ids.extract import ID_BYTES, NUMBER_MARK
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.bootstrap.source import Columns

READY_ID: Final = "id16"
READY_TIME: Final = "seen_ms"

RawIds = list[bytes | None]
"""Ids as in records; None or empty for a row without one."""

_BATCH_ROWS: Final = 1 << 17
_CSV_BLOCK_BYTES: Final = 8 << 20


def tables(file: Path, columns: Columns) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the columns id, time and, if it exists, partition, with the bytes read."""
    if file.suffix == ".parquet":
        yield from _parquet_tables(file, columns)
    elif file.name.endswith((".csv", ".csv.gz")):
        yield from _csv_tables(file, columns)
    else:
        raise InvalidConfig(f"{file}: its name must end with .parquet, .csv or .csv.gz")


def _parquet_tables(file: Path, columns: Columns) -> Iterator[tuple[pa.RecordBatch, int]]:
    with parquet.ParquetFile(file) as opened:
        names = _chosen(opened.schema_arrow.names, columns, file)
        size, total, rows = file.stat().st_size, opened.metadata.num_rows, 0
        for batch in opened.iter_batches(_BATCH_ROWS, columns=names):
            rows += len(batch)
            yield batch.select(names), size * rows // total


def _csv_tables(file: Path, columns: Columns) -> Iterator[tuple[pa.RecordBatch, int]]:
    with pa.OSFile(str(file)) as head:
        names = _chosen(_csv_reader(head, file).schema.names, columns, file)
    types = dict(zip(names, (pa.binary(), pa.string(), pa.int64()), strict=False))
    convert = csv.ConvertOptions(column_types=types, include_columns=names)
    with pa.OSFile(str(file)) as opened:
        for batch in _csv_reader(opened, file, convert):
            yield batch, opened.tell()


def _csv_reader(
    opened: pa.NativeFile, file: Path, convert: csv.ConvertOptions | None = None
) -> csv.CSVStreamingReader:
    plain = pa.CompressedInputStream(opened, "gzip") if file.suffix == ".gz" else opened
    # Blocks, and so batches, are the same each time: a batch's number is a position.
    options = csv.ReadOptions(block_size=_CSV_BLOCK_BYTES, use_threads=False)
    return csv.open_csv(plain, read_options=options, convert_options=convert)


def _chosen(names: Sequence[str], columns: Columns, file: Path) -> list[str]:
    ready = READY_ID in names and columns.id not in names
    id_name, time_name = (READY_ID, READY_TIME) if ready else (columns.id, columns.time)
    for name, option in ((id_name, "--id-column"), (time_name, "--time-column")):
        if name not in names:
            raise InvalidConfig(
                f"{file} has no column {name!r}, it has {', '.join(names)}: name the right one with {option}"
            )
    return [id_name, time_name, *([columns.partition] if columns.partition in names else [])]


def ready_ids(column: pa.Array, file: Path) -> bytes:
    """Return the joined ids of a column of 16 bytes each."""
    if column.null_count or not pc.all(pc.equal(pc.binary_length(column), ID_BYTES)).as_py():
        raise InvalidConfig(f"{file}: {READY_ID} must hold {ID_BYTES} bytes in each row")
    return b"".join(column.to_pylist())


def raw_ids(column: pa.Array, file: Path, source: IdSource, told: IdType | None) -> RawIds:
    """Return the ids of a column, as the worker finds them in records.

    Raises InvalidConfig for a column, or a cell of it, that can't hold ids of this stream.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = _kind_of(column.type, file)
    read = id_column(
        kind, source, told, place=str(file), shown_type=str(column.type), option="--id-type"
    )
    texts = column.cast(pa.string()) if kind is ColumnKind.WHOLE_NUMBER else column
    cells: RawIds = texts.cast(pa.binary()).to_pylist()
    if read.refused is not Refused.NONE:
        for cell in cells:
            if cell and read.is_refused(cell):
                raise read.refuse(cell)
    if read.type is IdType.NUMBER:
        return [cell and NUMBER_MARK + cell for cell in cells]
    return cells


def _kind_of(kind: pa.DataType, file: Path) -> ColumnKind | None:
    if file.suffix != ".parquet":
        return ColumnKind.CSV
    for is_kind, found in _KINDS:
        if is_kind(kind):
            return found
    return None


_KINDS: Final[tuple[tuple[Callable[[pa.DataType], bool], ColumnKind], ...]] = (
    (pa.types.is_integer, ColumnKind.WHOLE_NUMBER),
    (pa.types.is_string, ColumnKind.TEXT),
    (pa.types.is_large_string, ColumnKind.TEXT),
    (pa.types.is_string_view, ColumnKind.TEXT),
    (pa.types.is_binary, ColumnKind.BYTES),
    (pa.types.is_large_binary, ColumnKind.BYTES),
    (pa.types.is_binary_view, ColumnKind.BYTES),
    (pa.types.is_fixed_size_binary, ColumnKind.BYTES),
)


def times_of(column: pa.Array, file: Path) -> NDArray[np.int64]:
    """Return Unix milliseconds. A time without a zone is UTC."""
    if column.null_count:
        raise InvalidConfig(f"{file}: {column.null_count} rows have no time")
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = _parsed(column, file)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column = column.cast(pa.timestamp("ms"), safe=False)
    elif not pa.types.is_integer(kind):
        raise InvalidConfig(f"{file}: a time can't be {kind}; use Unix milliseconds or ISO 8601")
    times: NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return times


def _parsed(column: pa.Array, file: Path) -> pa.Array:
    kinds: tuple[Any, ...] = (pa.int64(), pa.timestamp("ns", "UTC"), pa.timestamp("ns"))
    for kind in kinds:
        try:
            found = column.cast(kind)
        except pa.ArrowInvalid:
            continue
        return found if kind == pa.int64() else found.cast(pa.timestamp("ms"), safe=False)
    raise InvalidConfig(
        f"{file}: times must all be Unix milliseconds, or all ISO 8601 with or all without a zone, such as "
        f"2026-11-21T10:00:00Z; the first here is {column[0].as_py()!r}"
    )
