"""Kafka Streams: a processor with a persistent store and its changelog topic.

It uses exactly_once_v2, and one process with a thread for each partition, as its documentation recommends for one
machine. The heap is 1 GiB, of which it uses a part; RocksDB's memory is not part of the heap.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from benchmarks.harness.traffic import ID_HEADER
from benchmarks.peers.install import PROGRAMS, jars, java_classes
from benchmarks.peers.peer import COMMIT_SECONDS, JAVA_PRODUCER, PARTITIONS, Command, Job, Peer
from dedupe_pipeline.runtime.java import find_java

VERSION: Final = "4.3.1"

COORDINATES: Final = (
    f"org.apache.kafka:kafka-streams:{VERSION}",
    "org.slf4j:slf4j-reload4j:1.7.36",
)


def _class_path() -> str:
    libraries = jars("kafka-streams", COORDINATES)
    classes = java_classes(PROGRAMS / "KafkaStreamsDedup.java", libraries)
    return ":".join(map(str, (PROGRAMS, classes, *libraries)))  # PROGRAMS for log4j.properties


def _commands(job: Job, id_header: str = "") -> list[Command]:
    return [
        [
            *(find_java(), "-Xms1g", "-Xmx1g", "-cp", _class_path(), "KafkaStreamsDedup"),
            *(job.servers, job.source, job.target, job.state),
            # With exactly-once its default is to commit each 100 ms, which costs it some percent.
            *(f"{PARTITIONS}", f"{COMMIT_SECONDS * 1000}", id_header),
            *(f"{name}={value}" for name, value in JAVA_PRODUCER.items()),
        ]
    ]


KAFKA_STREAMS: Final = Peer(
    name="kafka-streams",
    title=f"Kafka Streams {VERSION}",
    guarantee="exactly once",
    configuration=f"putIfAbsent on a persistent store with changelog; {PARTITIONS} threads, commit each "
    f"{COMMIT_SECONDS} s, heap 1 GiB",
    install=_class_path,
    commands=_commands,
)

KAFKA_STREAMS_UNKEYED: Final = replace(
    KAFKA_STREAMS,
    configuration=f"{KAFKA_STREAMS.configuration}; a header as the key, then repartition()",
    commands=partial(_commands, id_header=ID_HEADER),
)
