"""Read a topic with the data source, as a batch or as a stream, and write what was read as lines of JSON.

Usage: `spark-submit --py-files … reading.py batch|stream BOOTSTRAP-SERVERS TOPIC OUTPUT CHECKPOINT [FILTER]`.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dedupe_pipeline.datasource.source import DedupeStreamSource


def write(frame: DataFrame, output: str) -> None:
    """Append the rows to a file of the driver."""
    rows = frame.select("partition", "offset", "key", "value").collect()
    with Path(output).open("a", encoding="utf-8") as lines:
        for row in rows:
            key, value = (None if raw is None else bytes(raw).hex() for raw in (row.key, row.value))
            lines.write(json.dumps([row.partition, row.offset, key, value]) + "\n")


def read(kind: str, servers: str, topic: str, output: str, checkpoint: str, *wanted: str) -> None:
    """Read the present records once."""
    spark = SparkSession.builder.appName("reading").getOrCreate()
    # A source that is registered brings the --py-files to the tasks; one that Spark finds by itself does not.
    spark.dataSource.register(DedupeStreamSource)
    options = {"bootstrapServers": servers, "topic": topic, "jsonPath": "$.order.number"}
    if wanted:
        options["filter"] = wanted[0]
    if kind == "batch":
        write(spark.read.format("dedupestream").options(**options).load(), output)
    else:
        options["maxRecordsPerTrigger"] = "300"
        loaded = spark.readStream.format("dedupestream").options(**options).load()
        writer = loaded.writeStream.foreachBatch(lambda frame, _: write(frame, output))
        writer = writer.option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    read(*sys.argv[1:])
