"""Read ids and their times from files and tables."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_pipeline.jobs.land.open_table import open_table
from dedupe_pipeline.table_target import TableTarget


def read_rows(spark: SparkSession, source: str, table: TableTarget | None) -> DataFrame:
    """Return the rows of a table, or of files of Parquet or CSV."""
    if table is not None:
        return spark.table(open_table(spark, table).name)
    if source.endswith((".csv", ".csv.gz")):
        return spark.read.csv(source, header=True)
    return spark.read.parquet(source)


def seen_ms(column: str, kind: str) -> Column:
    """Return a time in milliseconds, of a column of this type."""
    time = F.col(column)
    if kind in {"int", "bigint"}:
        return time.cast("bigint")
    if kind != "string":
        return F.unix_millis(time.cast("timestamp"))
    number = time.rlike("^-?[0-9]+$")
    # Each branch gets only values that it can parse, because Spark may compute both.
    return F.when(number, F.when(number, time).cast("bigint")).otherwise(
        F.unix_millis(F.when(~number, time).cast("timestamp"))
    )
