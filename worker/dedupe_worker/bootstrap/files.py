"""Ids from Parquet and CSV files.

Columns, by the names the user gives: the id, as the manifest's `spec.id` would find it in a record; when it was seen,
as a time or in Unix milliseconds; and the partition it belongs to, unless that is in the path (`partition=3/`) or
follows from the id. With a repartition it follows from the id, except in files that were made for the stream. Files of
`dedupe-pipeline bootstrap` have the ids ready made, in a column `id16`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from re import compile as regex
from typing import Final

import numpy as np
import pyarrow as pa

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_ids.extract import ID_BYTES, pack_ids
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.bootstrap.columns import READY_ID, raw_ids, ready_ids, tables, times_of
from dedupe_worker.bootstrap.placement import Partitions, Placement
from dedupe_worker.bootstrap.source import Batch, Columns, Json, seen_entries

_MADE_FOR: Final = "bootstrap-of.json"
_IN_PATH: Final = regex(r"partition=(\d+)")


class FileSource:
    """One file, or all Parquet (else CSV) files below a directory.

    `stream` is namespace/name; `wanted` are the partitions to fill, out of `count`. `placement` computes the partition
    from the id; one by keys only of ids that are the records' keys. Raises InvalidConfig for what the user can fix,
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
        placement: Placement | None,
    ) -> None:
        self._columns = columns
        self._id_source = id_source
        self._count = count
        self._placement = placement
        self._root = path
        repartition = placement.name if placement is not None and placement.is_only else None
        is_made = _is_made_for(path, stream, count, repartition)
        # Else routers choose the partitions, and those in the files are of another topic.
        self._has_partitions = is_made or repartition is None
        files = _find(path)
        in_path = {f: _partition_in_path(f) if self._has_partitions else None for f in files}
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
        name = self._placement and self._placement.name
        found = {"files": files, "columns": columns, "partitionBy": name}
        # Only with the option, so that a job of a release before continues.
        return found | ({"idType": self._columns.id_type} if self._columns.id_type else {})

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
        known = self._partitions(table, file)
        if table.schema.names[0] == READY_ID:
            packed, rows, raw = ready_ids(ids, file), np.arange(given), None
        else:
            raw = raw_ids(ids, file, self._id_source, self._columns.id_type)
            found = pack_ids(raw)
            packed, rows = found.packed, found.rows
        if known is not None:
            partitions = known[rows]
        else:
            keys = None if raw is None else (raw[row] or b"" for row in rows.tolist())
            partitions = self._computed(packed, keys, file)
        return Batch(
            seen_entries(packed, times[rows]), partitions, given - len(rows), position, done
        )

    def _partitions(self, table: pa.RecordBatch, file: Path) -> Partitions | None:
        """Return the partition of each row if the file or its path contains it."""
        if (known := self._in_path[file]) is not None:
            return np.full(len(table), known, np.int64)
        if table.num_columns > 2 and self._has_partitions:
            column = table.column(2)
            if column.null_count:
                raise InvalidConfig(f"{file}: {column.null_count} rows have no partition")
            found: Partitions = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            for partition in np.unique(found).tolist():
                self._check(partition, file)
            return found
        return None

    def _computed(self, packed: bytes, keys: Iterator[bytes] | None, file: Path) -> Partitions:
        """Return the partition of each id as producers or routers choose it.

        `keys` are the ids as in records, None if only the packed ones are known.
        """
        placement = self._placement
        if placement is not None and placement.of_ids is not None:
            return placement.of_ids(packed)
        if self._count == 1:
            return np.zeros(len(packed) // ID_BYTES, np.int64)
        if placement is not None and placement.is_only and (keys is None or not self._ids_are_keys):
            raise InvalidConfig(
                f"{placement.chosen_by} determines the partition by the records' keys, and {file} does not contain "
                "them: read the ids --from topic:NAME"
            )
        if placement is None or placement.of_keys is None or keys is None:
            raise InvalidConfig(
                f"{file} has no column {self._columns.partition!r}, so that it is not known which of the "
                f"{self._count} partitions an id belongs to: add the column (--partition-column), or if ids are the "
                "records' keys, set how the producers choose a key's partition, with --partition-by murmur2 "
                "(Java clients) or crc32 (librdkafka)"
            )
        if not self._ids_are_keys:
            raise InvalidConfig(
                f"--partition-by works on the records' keys, and spec.id.from is {self._id_source.from_}: add a column "
                f"{self._columns.partition!r} to {file}"
            )
        return placement.of_keys(list(keys))

    @property
    def _ids_are_keys(self) -> bool:
        return self._id_source.from_ is IdFrom.KEY

    def _check(self, partition: int | None, file: Path) -> None:
        if partition is not None and not 0 <= partition < self._count:
            raise InvalidConfig(
                f"{file}: partition {partition} is not in the input topic, which has {self._count}: "
                "are these the ids of this stream?"
            )


def _is_made_for(path: Path, stream: str, count: int, repartition: str | None) -> bool:
    """Return whether `dedupe-pipeline bootstrap` made a directory for this stream.

    Raises InvalidConfig if it is for another one, or for other partitions.
    """
    try:
        made_for = json.loads((path / _MADE_FOR).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return False
    if (made_for["stream"], made_for["partitions"]) != (stream, count):
        raise InvalidConfig(
            f"{path} was made for {made_for['stream']} with {made_for['partitions']} partitions, and this is {stream} "
            f"with {count}: run dedupe-pipeline bootstrap with this stream's manifest"
        )
    if made_for.get("repartition") != repartition:
        raise InvalidConfig(
            f"{path} was made for {stream} with another spec.repartition, so its ids are in other partitions: run "
            "dedupe-pipeline bootstrap with the present manifest"
        )
    return True


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
