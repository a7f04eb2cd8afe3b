"""Calls that Spark has from 4.0 or 4.1 on, and how older versions do the same.

The jobs use these instead of Spark's own. Nothing here needs this project's packages on executors.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import DataType

from dedupe_pipeline.errors import RequestRefused

try:
    from pyspark.sql.pandas.functions import arrow_udf
except ImportError:  # Spark before 4.1
    arrow_udf = None  # type: ignore[assignment]


def arrow_column(function: Callable[..., pa.Array], kind: str, *columns: Column | str) -> Column:
    """Compute a column from columns of bytes, in Python, a batch at a time.

    `kind` is its type. Before Spark 4.1 batches pass through pandas, which then is needed on executors.
    """
    if arrow_udf is None:
        return _through_pandas(function, kind, *columns)

    def computed(*arrays: pa.Array) -> pa.Array:
        return function(*arrays)

    found: Column = arrow_udf(kind)(computed)(*columns)  # type: ignore[call-overload] # the types define the kind of function
    return found


def _through_pandas(function: Callable[..., pa.Array], kind: str, *columns: Column | str) -> Column:
    import pandas as pd  # noqa: PLC0415 (from Spark 4.1 on the jobs do not need it)

    def computed(*series: pd.Series) -> pd.Series:
        found = function(*(pa.array(each.to_list(), type=pa.binary()) for each in series))
        return pd.Series(found.to_pylist(), dtype=object)

    as_column: Any = pandas_udf(kind)(computed)  # type: ignore[call-overload] # the types define the kind of function
    column: Column = as_column(*columns)
    return column


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return all rows as an Arrow table."""
    if hasattr(DataFrame, "toArrow"):
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 (Spark 3.5)

    collect: Any = frame._collect_as_arrow  # noqa: SLF001 (what toPandas calls, without its losses)
    batches = collect()
    return pa.Table.from_batches(batches, schema=None if batches else to_arrow_schema(frame.schema))


def valid_utf8(content: Column) -> Column:
    """Return bytes or text as text, with U+FFFD for what is not UTF-8."""
    if hasattr(F, "make_valid_utf8"):
        return F.make_valid_utf8(content.cast("string"))
    return F.decode(content.cast("binary"), "UTF-8")  # Spark 4 refuses such bytes instead


def refuse_remote(spark: SparkSession, job: str) -> None:
    """Refuse a session of Spark Connect for a job that needs this process.

    Raises:
        RequestRefused: the session is one.
    """
    if _is_remote(spark):
        raise RequestRefused(
            f"{job} cannot run in a session of Spark Connect: what it does for each batch needs this machine's files "
            "and connections, and Spark Connect would do it on its server. Use a session of spark_session()"
        )


def parallelism(spark: SparkSession) -> int:
    """Return the number of cores on which tasks run."""
    if not _is_remote(spark):
        return int(spark.sparkContext.defaultParallelism)
    # Spark Connect has no such call. A range is divided by this number.
    parts = spark.range(1 << 16).select(F.spark_partition_id().alias("part"))
    return 1 + int(parts.agg(F.max("part")).collect()[0][0])


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def type_of(ddl: str) -> DataType:
    """Return the type that is written as DDL; that of a list of columns is a struct.

    Raises ParseException for other text.
    """
    identity = F.udf(lambda value: value, returnType=ddl)
    return SparkSession.active().range(0).select(identity("id")).schema[0].dataType
