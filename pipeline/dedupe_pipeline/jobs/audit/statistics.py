"""Distributions of repeats and records, from pairs with verdicts.

`verdicts.add_verdicts` makes the pairs; the job `audit` calls this module.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

QUANTILES = (0.5, 0.9, 0.99, 1.0)


def extent(judged: DataFrame) -> DataFrame:
    """Return one row: QUANTILES of the repeats' `delay_ms`, `distance`; `time_ms`.

    The delay is that to the first copy in any partition. The distance is that to the first copy in the same partition,
    in its records, as records of two partitions have no distance. `time_ms` is the period of the
    records; its ends are quantiles too, so that a single record from 1970 does not extend it.
    """
    return judged.select(
        F.percentile_approx(_delay_ms(), list(QUANTILES)).alias("delay_ms"),
        F.percentile_approx(_distance(), list(QUANTILES)).alias("distance"),
        F.percentile_approx(_time_ms(), [0.001, 0.999], 10_000).alias("time_ms"),
    )


def count_in_bins(judged: DataFrame, bins_per_decade: int) -> DataFrame:
    """Return rows of `measure` (delay_ms, distance), `bin`, `records`.

    Bin b contains values from 10^(b/n) to below 10^((b+1)/n), bin null those below 1.
    """
    repeats = judged.where("is_repeat").select(
        _delay_ms().alias("delay_ms"), _distance().alias("distance")
    )
    measured = repeats.unpivot([], ["delay_ms", "distance"], "measure", "value")
    values = measured.where(F.col("value").isNotNull())
    # The addition puts 1000 into its bin: its logarithm times n may be computed as 14.999….
    number = F.floor(F.log10("value") * bins_per_decade + F.lit(1e-9)).cast("int")
    bins = F.when(F.col("value") >= 1, number).alias("bin")
    return values.groupBy("measure", bins).agg(F.count(F.lit(1)).alias("records"))


def count_over_time(judged: DataFrame, start_ms: int, width_ms: int) -> DataFrame:
    """Return rows of `bucket`, `raw`, `clean`, `repeats`, by the records' timestamps.

    Bucket 0 begins at `start_ms`.
    """
    bucket = F.floor((_time_ms() - F.lit(start_ms)) / F.lit(width_ms)).cast("long")
    return judged.groupBy(bucket.alias("bucket")).agg(
        F.count("raw_offset").alias("raw"),
        F.count("clean_offset").alias("clean"),
        F.count_if("is_repeat").alias("repeats"),
    )


def _delay_ms() -> Column:
    return F.when(F.col("is_repeat"), F.col("raw_time_ms") - F.col("first_time_ms"))


def _distance() -> Column:
    in_partition = F.col("is_repeat") & (F.col("copy") > 1)
    return F.when(in_partition, F.col("raw_position") - F.col("first_position"))


def _time_ms() -> Column:
    return F.coalesce("raw_time_ms", "clean_time_ms")
