"""The question that Spark answers: on which day did most flights leave New York?

A replayed batch has about as many flights as one day. So duplicates do not only add noise: with them,
another day is the busiest.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.stream import DedupeStream
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.source import read_range
from examples.flights.outcome import Answer

SCHEMA = "year INT, month INT, day INT, dep_delay INT"


def answer_from_parquet(spark: SparkSession, landed: Path) -> Answer:
    """Answer from the landed clean topic, whose values were parsed with SCHEMA."""
    return busiest_day(spark.read.parquet(str(landed)).select("json.*"))


def answer_from_raw(spark: SparkSession, stream: DedupeStream) -> Answer:
    """Answer from the input topic, with its duplicates."""
    connection = KafkaConnection.of(stream)
    offsets = connection.cluster().offsets(stream.spec.input.single)
    value = F.col("value").cast("string")
    parsed = read_range(spark, connection, offsets).select(F.from_json(value, SCHEMA).alias("json"))
    return busiest_day(parsed.select("json.*"))


def busiest_day(flights: DataFrame) -> Answer:
    """Answer from rows with the columns of SCHEMA."""
    by_day = (
        flights.where(F.col("dep_delay").isNotNull())
        .groupBy(F.make_date("year", "month", "day").alias("date"))
        .agg(F.count(F.lit(1)).alias("flights"), F.median("dep_delay").alias("delay"))
        .collect()
    )
    busiest = min(by_day, key=lambda row: (-row["flights"], row["date"]))
    return Answer(
        busiest_day=busiest["date"].isoformat(),
        flights_that_day=busiest["flights"],
        median_delay_minutes=busiest["delay"],
        flights_in_all=sum(row["flights"] for row in by_day),
    )
