"""Ids from Parquet and CSV files.

Columns, by the names the user gives: the id, as the manifest's `spec.id` would find it in a record; when it was seen,
as a time or in Unix milliseconds; and the partition it belongs to, unless that is in the path (`partition=3/`) or
follows from the id. Files of `dedupe-pipeline bootstrap` have the ids ready made, in a column `id16`.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from re import compile as regex
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_ids.extract import pack_ids
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.partitioners import Partitioner, partitions_of
from dedupe_worker.bootstrap.columns import READY_ID, raw_ids_for, ready_ids, tables, times_of
from dedupe_worker.bootstrap.source import Batch, Columns, Json, seen_entries

_MADE_FOR: Final = "bootstrap-of.json"
_IN_PATH: Final = regex(r"partition=(\d+)")


class FileSource:
    """One file, or all Parquet (else CSV) files below a directory.

    `stream` is namespace/name; `wanted` are the partitions to fill, out of `count`. `partitioner` computes the
    partition from the id, which then is the records' key. Raises InvalidConfig for what the user can fix,
    here or while reading.
    """

    def __init__(
        self,
        path: Path,
        *,
        stream: str,
        columns: Columns,
        id_source: IdSource,
        wanted: frozenset[int],
        count: int,
        partitioner: Partitioner | None,
    ) -> None:
        self._columns = columns
        self._raw_ids = raw_ids_for(id_source)
        self._id_from = id_source.from_
        self._count = count
        self._partitioner = partitioner
        self._root = path
        _check_made_for(path, stream, count)
        files = _find(path)
        in_path = {file: _partition_in_path(file) for file in files}
        self._all = files
        self._files = [f for f in files if in_path[f] is None or in_path[f] in wanted]
        for file in files:
            self._check(in_path[file], file)
        self._in_path = in_path
        self._sizes = [file.stat().st_size for file in self._files]

    @property
    def fingerprint(self) -> Json:
        """Return names, sizes and times of all files, and how they are read."""
        files = [[str(f.resolve()), f.stat().st_size, f.stat().st_mtime_ns] for f in self._all]
        columns = [self._columns.id, self._columns.time, self._columns.partition]
        return {"files": files, "columns": columns, "partitionBy": self._partitioner}

    @property
    def total(self) -> int:
        """Return the approximate number of bytes."""
        return sum(self._sizes)

    def batches(self, position: Json | None) -> Iterator[Batch]:
        """Yield batches after `position`: [file, batch of it].

        Files are parsed again up to there, and their ids skipped.
        """
        first, skip = position or (0, 0)
        before = sum(self._sizes[:first])
        for index, file in enumerate(self._files[first:], start=first):
            try:
                for number, (table, done) in enumerate(tables(file, self._columns), start=1):
                    if number > skip:
                        yield self._batch(table, file, [index, number], before + done)
            except (pa.ArrowException, OSError) as error:
                raise InvalidConfig(f"{file}: {error}") from error
            skip = 0
            before += self._sizes[index]

    def _batch(self, table: pa.RecordBatch, file: Path, position: Json, done: int) -> Batch:
        given = len(table)
        ids = table.column(0)
        times = times_of(table.column(1), file)
        partitions = self._partitions(table, file)
        if table.schema.names[0] == READY_ID:
            packed, rows, keys = ready_ids(ids, file), np.arange(given), None
        else:
            raw = self._raw_ids(ids)
            found = pack_ids(raw)
            packed, rows = found.packed, found.rows
            keys = raw if partitions is None else None
        if partitions is None:
            partitions = self._computed(keys, given, file)
        return Batch(
            seen_entries(packed, times[rows]), partitions[rows], given - len(rows), position, done
        )

    def _partitions(self, table: pa.RecordBatch, file: Path) -> NDArray[np.int64] | None:
        """Return the partition of each row if the file or its path contains it."""
        if (known := self._in_path[file]) is not None:
            return np.full(len(table), known, np.int64)
        if table.num_columns > 2:
            column = table.column(2)
            if column.null_count:
                raise InvalidConfig(f"{file}: {column.null_count} rows have no partition")
            found: NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            for partition in np.unique(found).tolist():
                self._check(partition, file)
            return found
        return None

    def _computed(
        self, keys: Sequence[bytes | None] | None, given: int, file: Path
    ) -> NDArray[np.int64]:
        """Return the partition of each row as producers choose it.

        `keys` is None if they are not known.
        """
        if self._count == 1:
            return np.zeros(given, np.int64)
        if self._partitioner is None or keys is None:
            raise InvalidConfig(
                f"{file} has no column {self._columns.partition!r}, so that it is not known which of the "
                f"{self._count} partitions an id belongs to: add the column (--partition-column), or if ids are the "
                "records' keys, set how the producers choose a key's partition, with --partition-by murmur2 "
                "(Java clients) or crc32 (librdkafka)"
            )
        if self._id_from is not IdFrom.KEY:
            raise InvalidConfig(
                f"--partition-by works on the records' keys, and spec.id.from is {self._id_from}: add a column "
                f"{self._columns.partition!r} to {file}"
            )
        return partitions_of([key or b"" for key in keys], self._count, self._partitioner)

    def _check(self, partition: int | None, file: Path) -> None:
        if partition is not None and not 0 <= partition < self._count:
            raise InvalidConfig(
                f"{file}: partition {partition} is not in the input topic, which has {self._count}: "
                "are these the ids of this stream?"
            )


def _check_made_for(path: Path, stream: str, count: int) -> None:
    """Refuse a directory that `dedupe-pipeline bootstrap` made for something else.

    That is another stream, or another number of partitions.
    """
    try:
        made_for = json.loads((path / _MADE_FOR).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return
    if (made_for["stream"], made_for["partitions"]) != (stream, count):
        raise InvalidConfig(
            f"{path} was made for {made_for['stream']} with {made_for['partitions']} partitions, and this is {stream} "
            f"with {count}: run dedupe-pipeline bootstrap with this stream's manifest"
        )


def _find(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InvalidConfig(f"{path}: there is no such file or directory")
    if (path / "_temporary").exists():
        raise InvalidConfig(
            f"{path}: Spark has not written all of it; let its job finish, or run it again"
        )
    for pattern in ("*.parquet", "*.csv", "*.csv.gz"):
        found = sorted(
            file
            for file in path.rglob(pattern)
            if not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
        )
        if found:
            return found
    raise InvalidConfig(f"{path}: holds no *.parquet, *.csv or *.csv.gz files")


def _partition_in_path(file: Path) -> int | None:
    found = [_IN_PATH.fullmatch(part) for part in reversed(file.absolute().parts)]
    return next((int(match[1]) for match in found if match), None)
