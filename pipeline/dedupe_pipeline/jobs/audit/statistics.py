"""Distributions of repeats and records, from pairs with verdicts.

`verdicts.add_verdicts` makes the pairs; the job `audit` calls this module.
"""

import math
from datetime import UTC, datetime, timedelta
from operator import attrgetter

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_pipeline.jobs.audit.result import Bin, Distribution, TimeSlice

QUANTILES = (0.5, 0.9, 0.99, 1.0)
_BINS_PER_DECADE = 5
_TIME_SLICES = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OLDEST_MS = -62_135_596_800_000  # year 1, the first that Python's datetime can hold
_NEWEST_MS = 253_402_300_799_999


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


def distributions(judged: DataFrame, extent: Row) -> dict[str, Distribution]:
    """Return the distributions of delays and distances; `extent` has their quantiles."""
    binned = count_in_bins(judged, _BINS_PER_DECADE).collect()

    def spread(measure: str, unit: str) -> Distribution:
        found = [(row["bin"], row["records"]) for row in binned if row["measure"] == measure]
        quantiles = extent[measure] or [None] * len(QUANTILES)
        return Distribution(
            unit=unit,
            bins=tuple(sorted((_bin(*row) for row in found), key=attrgetter("low"))),
            **dict(zip(("p50", "p90", "p99", "maximum"), quantiles, strict=True)),
        )

    return {"delay": spread("delay_ms", "ms"), "distance": spread("distance", "records")}


def _bin(number: int | None, records: int) -> Bin:
    if number is None:
        return Bin(low=0, high=1, records=records)
    low, high = (10 ** (edge / _BINS_PER_DECADE) for edge in (number, number + 1))
    return Bin(low=low, high=high, records=records)


def timeline(judged: DataFrame, ends: list[int] | None) -> tuple[TimeSlice, ...]:
    """Return about a hundred slices of the period that contains nearly all records."""
    if ends is None:
        return ()
    start, end = max(ends[0], _OLDEST_MS), min(ends[1], _NEWEST_MS)
    width = max(1, math.ceil((end - start + 1) / _TIME_SLICES))
    counted = count_over_time(judged, start, width).collect()
    slices = {row["bucket"]: row.asDict() for row in counted}

    def time_slice(bucket: int) -> TimeSlice:
        counts = slices.get(bucket, {})
        return TimeSlice(
            start=_EPOCH + timedelta(milliseconds=start + bucket * width),
            seconds=width / 1000,
            **{name: counts.get(name, 0) for name in ("raw", "clean", "repeats")},
        )

    return tuple(map(time_slice, range((end - start) // width + 1)))


def _delay_ms() -> Column:
    return F.when(F.col("is_repeat"), F.col("raw_time_ms") - F.col("first_time_ms"))


def _distance() -> Column:
    in_partition = F.col("is_repeat") & (F.col("copy") > 1)
    return F.when(in_partition, F.col("raw_position") - F.col("first_position"))


def _time_ms() -> Column:
    return F.coalesce("raw_time_ms", "clean_time_ms")
