"""Passes each key on once, by Spark Structured Streaming, until SIGTERM.

Arguments: SERVERS INPUT OUTPUT STATE_DIR TASKS, then client properties of the producer, each as name=value.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from dedupe_pipeline.runtime.jars import spark_kafka

# A batch has a fixed cost, so larger batches are cheaper. Spark needs a second or two for these, so its output is about
# as late as that of the other peers.
_BATCH_RECORDS: Final = 100_000
_WINDOW: Final = "24 hours"  # longer than a run: no id is forgotten in it
_STATE: Final = "spark.sql.streaming.stateStore"


def main() -> None:
    """Run until SIGTERM."""
    servers, source, target, state, tasks = sys.argv[1:6]
    producer = dict(each.split("=", 1) for each in sys.argv[6:])
    spark = _session(Path(state), tasks)
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", _BATCH_RECORDS)
        .load()
        .select("key", "value", "headers", "timestamp")
    )
    query = (
        messages.withWatermark("timestamp", _WINDOW)
        .dropDuplicatesWithinWatermark(["key"])
        .select("key", "value", "headers")
        .writeStream.format("kafka")
        .outputMode("append")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("includeHeaders", "true")
        .option("checkpointLocation", f"{state}/checkpoint")
        .options(**{f"kafka.{name}": value for name, value in producer.items()})
        .start()
    )
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    query.awaitTermination()


def _session(state: Path, tasks: str) -> SparkSession:
    return (
        SparkSession.builder.master(f"local[{tasks}]")
        .appName("dedup")
        .config("spark.jars", ",".join(map(str, spark_kafka())))
        .config("spark.driver.memory", "3g")  # in local mode the executors are in the driver
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(state / "tmp"))
        # Each is a state store, and a RocksDB of its own.
        .config("spark.sql.shuffle.partitions", tasks)
        .config(
            f"{_STATE}.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        # What Spark's guide recommends against slow commits: upload the changes, not whole files.
        .config(f"{_STATE}.rocksdb.changelogCheckpointing.enabled", "true")
        # A count of rows costs another lookup for each write.
        .config(f"{_STATE}.rocksdb.trackTotalNumberOfRows", "false")
        .getOrCreate()
    )


if __name__ == "__main__":
    main()
