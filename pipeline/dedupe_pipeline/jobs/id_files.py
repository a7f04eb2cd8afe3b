"""Read the ids in a column of files or of a table.

The jobs `bootstrap` and `audit` call it. `dedupe_ids.column_ids` decides what the cells mean.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.column_ids import ColumnKind, IdColumn, IdType, Refused, id_column
from dedupe_ids.extract import WHOLE_NUMBER
from dedupe_kafka.errors import InvalidConfig
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.jobs.land.open_table import open_table
from dedupe_pipeline.runtime.portable import arrow_column
from dedupe_pipeline.table_target import TableTarget
from dedupe_pipeline.udfs.encode import is_utf8

_WHOLE: Final = {"tinyint", "smallint", "int", "bigint"}
_TEXT: Final = ("string", "char(", "varchar(")
_REPLACED: Final = "\ufffd"  # Spark's character for bytes that are no text


@dataclass(frozen=True, kw_only=True)
class IdFile:
    """A source of ids, files of Parquet or CSV or a table, and its column of ids.

    `id_type` is the type of the ids in the records if the column's own type does not tell. `type_option` and
    `column_option` name the options in messages.
    """

    source: str
    column: str
    id_type: IdType | None
    table: TableTarget | None = None
    type_option: str = "--id-type"
    column_option: str = "--id-column"

    @property
    def is_csv(self) -> bool:
        """Return whether the source is files of CSV."""
        return self.table is None and self.source.endswith((".csv", ".csv.gz"))

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the rows of the source. Raises RequestRefused without the column."""
        if self.table is not None:
            rows = spark.table(open_table(spark, self.table).name)
        elif self.is_csv:
            # Quotes in a cell are doubled (RFC 4180), as `dedupe bootstrap` reads them; Spark expects a backslash.
            rows = spark.read.csv(self.source, header=True, escape='"')
        else:
            rows = spark.read.parquet(self.source)
        check_column(rows, self.source, self.column, self.column_option)
        return rows

    def ids(self, rows: DataFrame, source: IdSource) -> tuple[Column, IdType]:
        """Return the bytes of each id as of `IdColumn`, null without one, and the type.

        Raises RequestRefused for a column, or a cell of it, that can't hold ids of this stream. Cells are read
        only where the type of the column leaves a doubt.
        """
        read = self._id_column(rows, source)
        if read.refused is not Refused.NONE and (found := self.refused(rows, source).head(1)):
            raise RequestRefused(str(read.refuse(bytes(found[0][0]))))
        ids = self._raw(rows)
        return self._undamaged(ids) if self.is_csv else ids, read.type

    def refused(self, rows: DataFrame, source: IdSource) -> DataFrame:
        """Return the cells that can't be ids of this stream, as the column `id`."""
        read = self._id_column(rows, source)
        ids = rows.select(self._raw(rows).alias("id"))
        return ids.where(F.col("id").isNotNull() & _is_refused(read))

    def _id_column(self, rows: DataFrame, source: IdSource) -> IdColumn:
        shown = self._type(rows)
        kind = ColumnKind.CSV if self.is_csv else _kind_of(shown)
        try:
            return id_column(
                kind,
                source,
                self.id_type,
                place=self.source,
                shown_type=shown,
                option=self.type_option,
            )
        except InvalidConfig as error:
            raise RequestRefused(str(error)) from error

    def _raw(self, rows: DataFrame) -> Column:
        cell = F.col(self.column)
        is_whole = _kind_of(self._type(rows)) is ColumnKind.WHOLE_NUMBER
        raw = (cell.cast("string") if is_whole else cell).cast("binary")
        return F.when(F.length(raw) > 0, raw)

    def _type(self, rows: DataFrame) -> str:
        return dict(rows.dtypes)[self.column]

    def _undamaged(self, ids: Column) -> Column:
        """Return the ids of CSV, of which one that is not UTF-8 fails the job."""
        text = ids.cast("string")
        failed = F.raise_error(
            F.concat(
                F.lit(f"{self.source}: the id "),
                text,
                F.lit(
                    " is not UTF-8, and Spark reads CSV as text: write Parquet with a column of bytes"
                ),
            )
        )
        return F.when(text.contains(_REPLACED), failed.cast("binary")).otherwise(ids)


def _kind_of(shown_type: str) -> ColumnKind | None:
    if shown_type in _WHOLE:
        return ColumnKind.WHOLE_NUMBER
    if shown_type.startswith(_TEXT):
        return ColumnKind.TEXT
    return ColumnKind.BYTES if shown_type == "binary" else None


def check_column(rows: DataFrame, source: str, column: str, option: str) -> None:
    """Raise RequestRefused if the rows lack a column; the option names another one."""
    if column not in rows.columns:
        raise RequestRefused(
            f"{source} has no column {column!r}, it has {', '.join(rows.columns)}: name the right column with {option}"
        )


def _is_refused(read: IdColumn) -> Column:
    """Return whether a cell is refused, as `IdColumn.is_refused` does."""
    match read.refused:
        case Refused.NUMBERS:
            return _is_number(F.col("id").cast("string"))
        case Refused.NOT_NUMBERS:
            return ~_is_number(F.col("id").cast("string"))
        case Refused.NOT_UTF8:
            return _is_not_utf8("id")
        case _:
            return F.lit(False)


def _is_not_utf8(column: str) -> Column:
    # A function inside of another one is sent by value: executors need not import this module.
    def computed(ids: pa.Array) -> pa.Array:
        return pa.array([each is not None and not is_utf8(each) for each in ids.to_pylist()])

    return arrow_column(computed, "boolean", column)


def _is_number(text: Column) -> Column:
    digits = text.rlike(rf"\A(?:{WHOLE_NUMBER})\z")
    # The cast gets only digits, because Spark may compute both sides.
    number = F.when(digits, text).cast("decimal(20,0)")
    fits = (number >= F.lit(str(-(2**63))).cast("decimal(20,0)")) & (
        number <= F.lit(str(2**64 - 1)).cast("decimal(20,0)")
    )
    return digits & F.coalesce(fits, F.lit(False))
