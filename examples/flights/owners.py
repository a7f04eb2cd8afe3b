"""Checks the original and the age of each duplicate against the raw topic."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.stream import DedupeStream
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.source import read_range
from dedupe_worker.dedup.side_headers import AGE_HEADER, ORIGINAL_HEADER, POSITION_HEADER
from examples.flights.outcome import Explained


def explained(spark: SparkSession, stream: DedupeStream) -> Explained:
    """Check each duplicate of a stream that routes duplicates to a topic."""
    connection = KafkaConnection.of(stream)
    cluster, spec = connection.cluster(), stream.spec

    def read(topic: str | None) -> DataFrame:
        return read_range(spark, connection, cluster.offsets(topic or ""))

    raw, duplicates = read(spec.input.single), read(spec.duplicates.topic)
    if spec.repartition is None:
        return explain(raw, duplicates, spec.id.name)
    return explain_routed(raw, duplicates, spec.input.single, spec.id.name)


def explain(raw: DataFrame, duplicates: DataFrame, id_header: str | None = None) -> Explained:
    """Compare duplicates with raw records, in the columns of `dedupe_pipeline.source`.

    The original is the first record with the id in the same partition. The id is the key, or in `id_header`.
    """
    id_ = (_header(id_header) if id_header else F.col("key")).alias("id")
    firsts = raw.groupBy(id_, "partition").agg(F.min("offset").alias("first"))
    first = F.format_string("%d:%d", "partition", "first")
    told = _told(duplicates, id_)
    return _counted(
        told.join(firsts, ["id", "partition"], "left"), F.col("original").eqNullSafe(first)
    )


def explain_routed(
    raw: DataFrame, duplicates: DataFrame, topic: str, id_header: str | None = None
) -> Explained:
    """Compare duplicates with raw records of any partition, of a stream with routers.

    The original is another record with the id: which of them came first is decided between the partitions.
    """
    id_ = (_header(id_header) if id_header else F.col("key")).alias("id")
    place = F.format_string(f"{topic}:%d:%d", "partition", "offset").alias("original")
    originals = raw.select(id_, place, F.lit(True).alias("is_there"))
    found = _told(duplicates, id_).join(originals, ["id", "original"], "left")
    other = F.col("is_there").isNotNull() & (F.col("original") != F.col("position"))
    return _counted(found, other)


def _told(duplicates: DataFrame, id_: Column) -> DataFrame:
    return duplicates.select(
        id_,
        "partition",
        _header(ORIGINAL_HEADER).alias("original"),
        _header(POSITION_HEADER).alias("position"),
        _header(AGE_HEADER).cast("long").alias("age_ms"),
    )


def _counted(told: DataFrame, is_right: Column) -> Explained:
    by_age = (
        told.groupBy("age_ms")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.count_if(~is_right).alias("misattributed"),
        )
        .collect()
    )
    return Explained(
        records=sum(row["records"] for row in by_age),
        misattributed=sum(row["misattributed"] for row in by_age),
        ages_ms={row["age_ms"]: row["records"] for row in by_age if row["age_ms"] is not None},
    )


def _header(name: str) -> Column:
    """Return the last header of a name as text, or null if there is none."""
    named = F.filter("headers", lambda header: header["key"] == name)
    return F.try_element_at(named, F.lit(-1))["value"].cast("string")
