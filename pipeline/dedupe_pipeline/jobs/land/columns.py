"""The columns that `land` writes, into files and tables."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)
from pyspark.sql.types import StringType, StructField, StructType

from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.runtime.portable import type_of, valid_utf8

CORRUPT = "_corrupt"
_FILE_BYTES = "128m"
_PARTITION_BYTES = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_DAY_MILLIS = 86_400_000


def columns_to_land(records: DataFrame, json_schema: str | None = None) -> DataFrame:
    """Return the columns to land: the source's, `date` in UTC, and the parsed value.

    A value that is not one JSON object of the schema is null in `json`, and its text is in `_corrupt`.
    """
    day = F.floor(F.unix_millis("timestamp") / F.lit(_DAY_MILLIS)).cast("int")
    dated = records.withColumn("date", F.date_from_unix_date(day))
    if json_schema is None:
        return dated
    wanted = type_of(json_schema)
    if not isinstance(wanted, StructType):
        raise LandingRefused(
            f"--json-schema: {json_schema} is no list of columns, such as: id STRING, n INT"
        )
    fields = [field.name for field in wanted]
    mark = "_".join(["corrupt", *fields])  # longer than each field's name, so it is none of them
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": mark}
    # Readers of Parquet expect valid UTF-8; `value` has the bytes.
    text = valid_utf8(F.col("value"))
    parsed = F.from_json(text, StructType([*wanted, StructField(mark, StringType())]), options)
    # In PERMISSIVE mode Spark returns the fields that it could read of a corrupt value. Of an empty value it returns
    # null, as of a record without a value.
    is_read = F.col(mark).isNotNull() & F.col(mark)[mark].isNull()
    columns = F.struct(*(F.col(mark)[name].alias(name) for name in fields))
    return (
        dated.withColumn(mark, parsed)
        .withColumn("json", F.when(is_read, columns))
        .withColumn(CORRUPT, F.when(~is_read, text))
        .drop(mark)
    )


def in_few_files(rows: DataFrame) -> DataFrame:
    """Return the rows of a batch in partitions of some 128 MiB, each of one date.

    Otherwise each partition of the topic has its own file for each date. Adaptive execution merges the small
    partitions, and splits the large ones.
    """
    spark = rows.sparkSession
    if not spark.sparkContext.getConf().contains(_PARTITION_BYTES):
        spark.conf.set(_PARTITION_BYTES, _FILE_BYTES)
    return rows.hint("rebalance", "date")
