"""Spark Structured Streaming: dropDuplicatesWithinWatermark, on RocksDB.

Its sink for Kafka is at-least-once: a batch that is repeated after a crash is written again.
"""

import sys
from importlib.metadata import version
from typing import Final

from benchmarks.peers.peer import JAVA_PRODUCER, PARTITIONS, Command, Job, Peer
from dedupe_pipeline.runtime.jars import spark_kafka


def _commands(job: Job) -> list[Command]:
    return [
        [
            *(sys.executable, "-m", "benchmarks.peers.programs.spark_dedup"),
            *(job.servers, job.source, job.target, job.state, f"{PARTITIONS}"),
            *(f"{name}={value}" for name, value in JAVA_PRODUCER.items()),
        ]
    ]


SPARK: Final = Peer(
    name="spark",
    title=f"Spark {version('pyspark')}",
    guarantee="at least once",
    configuration=f"dropDuplicatesWithinWatermark, 24 h; local[{PARTITIONS}], RocksDB with changelog checkpoints, "
    "100,000 records a batch, heap 3 GiB",
    install=spark_kafka,
    commands=_commands,
    environment={"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
)
