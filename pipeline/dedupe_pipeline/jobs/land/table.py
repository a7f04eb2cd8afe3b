"""A table that `land` appends to: what Iceberg and Delta Lake have in common.

Invariant of `append`: the rows and the offsets behind them are committed in one step, and only if the table's offsets
are those that the rows follow.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)
from pyspark.sql.types import DataType, StructField, StructType

from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.land.landed_offsets import PROPERTY, LandedOffsets

_OF_JSON_SCHEMA = ("json", "_corrupt")


class LandingTable(ABC):
    """A table with the columns of `land`; `name` is quoted for SQL."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._spark = spark

    def prepare(
        self, schema: StructType, partition_by: Sequence[str], start: LandedOffsets
    ) -> LandedOffsets:
        """Create the table if it is absent, add absent columns, and return its offsets.

        A table without offsets gets `start`. The rows that it has stay as they are.

        Raises:
            LandingRefused: a column of the table has another type, or is not in the schema.
        """
        self._create(self._columns(schema), partition_by, start)
        present = self._spark.table(self.name).schema
        for path, kind in added_fields(present, schema):
            quoted = ".".join(map(quote, path))
            self._spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({quoted} {self._sql(kind)})")
        landed = self.landed()
        if landed is None:
            self._adopt(start)
            return start
        return landed

    def fitted(self, rows: DataFrame) -> DataFrame:
        """Return the rows with the columns of the table; those of others are null."""
        given = {name.lower(): name for name in rows.columns}
        return rows.select(
            *(
                F.col(given[field.name.lower()]).alias(field.name)
                if field.name.lower() in given
                else F.lit(None).cast(field.dataType).alias(field.name)
                for field in self._spark.table(self.name).schema
            )
        )

    @abstractmethod
    def landed(self) -> LandedOffsets | None:
        """Return the offsets of the present table, None if nothing has landed in it."""

    @abstractmethod
    def append(
        self,
        rows: DataFrame,
        before: LandedOffsets,
        after: LandedOffsets,
        admit: Callable[[], None],
    ) -> None:
        """Append the rows between two offsets, once `admit` has not raised.

        Raises:
            LandingOvertaken: the table's offsets are no longer `before`: nothing was appended.
        """

    @abstractmethod
    def compact(self) -> None:
        """Rewrite small files, with the table format's own procedure."""

    @abstractmethod
    def _create(self, columns: str, partition_by: Sequence[str], start: LandedOffsets) -> None:
        """Create the table with `start`, if it is absent."""

    @abstractmethod
    def _adopt(self, start: LandedOffsets) -> None:
        """Set the offsets of a table without any."""

    def _columns(self, schema: StructType) -> str:
        return ", ".join(f"{quote(each.name)} {self._sql(each.dataType)}" for each in schema)

    def _sql(self, kind: DataType) -> str:
        """Return a type in SQL; Python's `simpleString` does not quote names."""
        jvm = self._spark._jvm  # noqa: SLF001 (no public counterpart)
        return str(jvm.org.apache.spark.sql.types.DataType.fromJson(kind.json()).sql())  # type: ignore[union-attr] # there is a JVM

    @staticmethod
    def _properties(start: LandedOffsets) -> str:
        return f"TBLPROPERTIES ('{PROPERTY}' = '{start.to_json()}')"


def quote(name: str) -> str:
    """Return an identifier for SQL.

    >>> quote("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def added_fields(
    present: StructType, wanted: StructType, inside: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Yield path and type of each field that a table lacks.

    Raises:
        LandingRefused: a field has another type, or one of --json-schema was removed.
    """
    by_name = {field.name.lower(): field for field in present}
    for field in wanted:
        path = (*inside, field.name)
        known = by_name.get(field.name.lower())
        if known is None:
            yield path, field.dataType
        elif isinstance(field.dataType, StructType) and isinstance(known.dataType, StructType):
            yield from added_fields(known.dataType, field.dataType, path)
        elif _shape(known) != _shape(field):
            raise LandingRefused(
                f"column {'.'.join(path)} is {_shape(known)} in the table, and would be {_shape(field)}: the type of "
                "a column does not change; give the value another name, or land into another table"
            )
    names = {field.name.lower() for field in wanted}
    gone = [
        ".".join((*inside, name))
        for name in by_name
        if name not in names and _is_ours(inside, name)
    ]
    if gone:
        raise LandingRefused(
            f"the table has {', '.join(gone)}, and --json-schema has not: fields are only added; name all of them, or "
            "land into another table"
        )


def _is_ours(inside: tuple[str, ...], name: str) -> bool:
    return bool(inside) or name in _OF_JSON_SCHEMA


def _shape(field: StructField) -> str:
    """Return a type without what may be null."""
    return field.dataType.simpleString()
