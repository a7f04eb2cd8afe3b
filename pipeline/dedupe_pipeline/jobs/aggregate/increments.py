"""Compute the rows that a batch adds, by partition, fate, window and keys.

Invariant: the rows depend only on the batch's records and on the `Progress` of their partitions, because the database
holds the state. So the records can be divided into batches at any offset. This holds for lateness too, which Spark's
own watermark would decide by the division into batches:

    a record is late for a window if an earlier record of its partition has an event time that is
    `watermark` or more past the window's end

Columns (names that begin with an underscore are not the user's):

    _partition int       of the topic
    _fate string         counted; late; filtered (`where` is not true); unusable (the value does not fit
                         `schema`, or the event time is missing or outside of the years 1000 to 9000, or the
                         keys have more than 2,000 bytes, the limit of an index)
    _window timestamp    start of the window; null if filtered or unusable
    keys                 null if filtered or unusable
    measures             of these records
    _records long        their number; with sliding windows a record counts in its last window only
    _additions long      their number of additions to windows
    _first, _last long   offsets
    _newest timestamp    the newest usable event time
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)
from pyspark.sql.types import (
    IntegralType,
    StringType,
    StructField,
    StructType,
)

from dedupe_pipeline.jobs.aggregate.job_file import RECORD, AggregateJob, Function, Late, Measure
from dedupe_pipeline.runtime.portable import valid_utf8

_MICROS = timedelta(microseconds=1)
_EARLIEST_MICROS = -30_610_224_000_000_000  # the year 1000
_BEFORE_MICROS = 221_845_392_000_000_000  # the year 9000
# The limit of a row in a B-tree is 2,704 bytes.
_MOST_KEY_BYTES = 2_000
_UNREADABLE = "_unreadable"


class Fate(StrEnum):
    """The result for a record."""

    COUNTED = "counted"
    LATE = "late"
    FILTERED = "filtered"
    UNUSABLE = "unusable"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a partition: every record before `next_offset` is counted.

    `newest_us` is the newest event time of these (microseconds since 1970), None without any.
    """

    next_offset: int
    newest_us: int | None = None


def increments(
    records: DataFrame,
    job: AggregateJob,
    schema: StructType | None,
    progress: Mapping[int, Progress],
    ends: Mapping[int, int] | None = None,
) -> DataFrame:
    """Compute the rows that the uncounted ones of `records` add.

    Records from `ends` on are left out. `records` have the columns of `read_clean` and no gap within a partition;
    `schema` is the job's parsed schema.
    """
    fresh = records.where(F.col("offset") >= _progress_of(progress, "next_offset", 0))
    if ends is not None:
        fresh = fresh.where(F.col("offset") < _of_partition(ends, None))
    judged = _in_windows(_usable(_evaluated(_parsed(fresh, schema), job), job), job, progress)
    return _grouped(judged, job)


def parsed_fields(records: DataFrame, schema: StructType | None) -> DataFrame:
    """Return what expressions may use: the schema's fields and the struct `record`."""
    return _parsed(records, schema).drop("_partition", "_offset", "_readable")


def _parsed(records: DataFrame, schema: StructType | None) -> DataFrame:
    at = (F.col("partition").alias("_partition"), F.col("offset").alias("_offset"))
    record = F.struct(
        F.col("key").cast("string").alias("key"), "timestamp", "partition", "offset", "headers"
    ).alias(RECORD)
    if schema is None:
        return records.select(*at, F.lit(True).alias("_readable"), record)
    wanted = StructType([*schema.fields, StructField(_UNREADABLE, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNREADABLE}
    value = F.from_json(F.col("value").cast("string"), wanted, options).alias("_value")
    with_value = records.select(*at, record, value)
    readable = F.col("_value").isNotNull() & F.col(f"_value.{_UNREADABLE}").isNull()
    fields = [F.col(f"_value.`{field.name}`").alias(field.name) for field in schema.fields]
    return with_value.select("_partition", "_offset", readable.alias("_readable"), RECORD, *fields)


def _evaluated(fields: DataFrame, job: AggregateJob) -> DataFrame:
    """Evaluate all expressions; later steps do not need the record itself."""
    keys = dict(_keys(fields, job))
    return fields.select(
        "_partition",
        "_offset",
        "_readable",
        F.unix_micros(F.expr(job.event_time).cast("timestamp")).alias("_event_us"),
        (F.expr(job.where) if job.where else F.lit(True)).alias("_wanted"),
        *(key.alias(name) for name, key in keys.items()),
        *(_measured(measure).alias(name) for name, measure in job.measures.items()),
    )


def _keys(fields: DataFrame, job: AggregateJob) -> Iterator[tuple[str, Column]]:
    """Yield the keys, with text as PostgreSQL allows it: valid UTF-8 without NUL."""
    for name, expression in job.keys.items():
        key = F.expr(expression)
        is_text = isinstance(fields.select(key).schema[0].dataType, StringType)
        yield name, F.translate(valid_utf8(key), "\0", "\ufffd") if is_text else key


def _measured(measure: Measure) -> Column:
    return F.lit(1) if measure.of == "*" else F.expr(measure.of)


def _usable(values: DataFrame, job: AggregateJob) -> DataFrame:
    kinds = {field.name: field.dataType for field in values.schema}
    texts = [name for name in job.keys if isinstance(kinds[name], StringType)]
    length = sum((F.coalesce(F.octet_length(name), F.lit(0)) for name in texts), F.lit(0))
    in_time = F.col("_event_us").between(_EARLIEST_MICROS, _BEFORE_MICROS - 1)
    usable = F.col("_readable") & F.coalesce(in_time, F.lit(False)) & (length <= _MOST_KEY_BYTES)
    return values.withColumn("_usable", usable)


def _in_windows(
    values: DataFrame, job: AggregateJob, progress: Mapping[int, Progress]
) -> DataFrame:
    """Return a row for each window of a record, with the record's fate there."""
    length, slide = job.window // _MICROS, (job.slide or job.window) // _MICROS
    last = F.col("_event_us") - F.pmod(F.col("_event_us"), F.lit(slide))
    taken = F.col("_usable") & F.coalesce(F.col("_wanted"), F.lit(False))
    with_closed = values.withColumn("_closed_us", _closed(job, progress))
    if slide == length:
        placed = with_closed.select(
            "*", F.lit(0).alias("_copy"), F.when(taken, last).alias("_start")
        )
    else:
        starts = F.array(*(last - earlier for earlier in range(0, length, slide)))
        none = F.array(F.lit(None).cast("bigint"))
        copies = F.posexplode(F.when(taken, starts).otherwise(none))
        placed = with_closed.select("*", copies.alias("_copy", "_start"))
    is_late = F.col("_start") + F.lit(length) <= F.col("_closed_us")
    fate = (
        F.when(~F.col("_usable"), Fate.UNUSABLE.value)
        .when(F.col("_start").isNull(), Fate.FILTERED.value)
        .when(is_late, Fate.LATE.value)
        .otherwise(Fate.COUNTED.value)
    )
    return placed.withColumn("_fate", fate)


def _closed(job: AggregateJob, progress: Mapping[int, Progress]) -> Column:
    """Return the time up to which windows were closed before a record, null if none."""
    if job.watermark is None:
        return F.lit(None).cast("bigint")
    earlier = Window.partitionBy("_partition").orderBy("_offset")
    earlier = earlier.rowsBetween(Window.unboundedPreceding, -1)
    in_batch = F.max(F.when(F.col("_usable"), F.col("_event_us"))).over(earlier)
    before_it = _progress_of(progress, "newest_us", None, "_partition")
    return F.greatest(in_batch, before_it) - F.lit(job.watermark // _MICROS)


def _grouped(judged: DataFrame, job: AggregateJob) -> DataFrame:
    fates = [Fate.COUNTED.value] + [Fate.LATE.value] * (job.late is Late.COUNT)
    kept = F.col("_fate").isin(fates)
    by: list[Column | str | int]
    by = ["_partition", "_fate", F.timestamp_micros(F.when(kept, F.col("_start"))).alias("_window")]
    by += [F.when(kept, F.col(name)).alias(name) for name in job.keys]
    kinds = {field.name: field.dataType for field in judged.schema}
    newest = F.max(F.when(F.col("_usable"), F.col("_event_us")))
    return judged.groupBy(*by).agg(
        *(_total(name, measure, kinds[name]).alias(name) for name, measure in job.measures.items()),
        F.count_if(F.col("_copy") == 0).alias("_records"),
        F.count(F.lit(1)).alias("_additions"),
        F.min("_offset").alias("_first"),
        F.max("_offset").alias("_last"),
        F.timestamp_micros(newest).alias("_newest"),
    )


def _total(name: str, measure: Measure, kind: object) -> Column:
    values = F.col(name)
    match measure.function:
        case Function.COUNT:
            return F.count(values)
        case Function.SUM:
            return F.sum(values.cast("bigint") if isinstance(kind, IntegralType) else values)
        case Function.MIN:
            return F.min(values)
        case Function.MAX:
            return F.max(values)


def _progress_of(
    progress: Mapping[int, Progress], field: str, default: int | None, column: str = "partition"
) -> Column:
    """Return a field of the progress of each row's partition, or the default."""
    values = {number: getattr(each, field) for number, each in progress.items()}
    return _of_partition(values, default, column)


def _of_partition(
    values: Mapping[int, int | None], default: int | None, column: str = "partition"
) -> Column:
    """Return the value of each row's partition, or the default."""
    if not values:
        return F.lit(default).cast("bigint")
    pairs = (F.lit(each) for pair in values.items() for each in pair)
    table = F.create_map(*pairs).cast("map<int,bigint>")
    return F.coalesce(F.try_element_at(table, F.col(column)), F.lit(default).cast("bigint"))
