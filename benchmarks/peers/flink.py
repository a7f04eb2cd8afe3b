"""Flink SQL: the documented deduplication query, on RocksDB, exactly once.

Exactly-once holds from checkpoint to transactional sink. Its jars are those of Flink's own distribution. Job
manager and task manager share one process, which saves them the network and a second heap: 2 GiB, less than the 3.3
GB that a standalone cluster takes by Flink's defaults.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.harness.traffic import ID_HEADER
from benchmarks.peers.install import PROGRAMS, jars, java_classes, virtual_environment
from benchmarks.peers.peer import JAVA_PRODUCER, PARTITIONS, Command, Job, Peer
from dedupe_pipeline.runtime.java import find_java

VERSION: Final = "2.2.1"

CONNECTOR: Final = ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",)

# What Flink's own scripts open to it on Java 17.
_OPENED: Final = (
    *("java.lang", "java.lang.invoke", "java.net", "java.io", "java.nio", "sun.nio.ch"),
    *("java.text", "java.time", "java.util", "java.util.concurrent"),
    "java.util.concurrent.atomic",
)


def _libraries() -> list[Path]:
    found = virtual_environment("flink").glob("lib/python*/site-packages/pyflink/lib/*.jar")
    return [*sorted(found), *jars("flink-kafka", CONNECTOR, transitive=False)]


def _class_path() -> str:
    libraries = _libraries()
    classes = java_classes(PROGRAMS / "FlinkDedup.java", libraries)
    return ":".join(map(str, (PROGRAMS, classes, *libraries)))  # PROGRAMS for log4j2.properties


def _commands(job: Job, id_header: str = "") -> list[Command]:
    return [
        [
            *(find_java(), "-Xms2g", "-Xmx2g"),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            f"-Djava.io.tmpdir={job.state}",
            *("-cp", _class_path(), "FlinkDedup"),
            *(job.servers, job.source, job.target, job.state, f"{PARTITIONS}", id_header),
            *(f"{name}={value}" for name, value in JAVA_PRODUCER.items()),
        ]
    ]


FLINK: Final = Peer(
    name="flink",
    title=f"Flink SQL {VERSION}",
    guarantee="exactly once",
    configuration=f"ROW_NUMBER() = 1 by processing time; one process, parallelism {PARTITIONS}, RocksDB with Bloom "
    "filter, incremental checkpoints each 2 s, object reuse, heap 2 GiB",
    install=_class_path,
    commands=_commands,
)

FLINK_UNKEYED: Final = replace(
    FLINK,
    configuration=f"{FLINK.configuration}; PARTITION BY a header, so it shuffles within the job",
    commands=partial(_commands, id_header=ID_HEADER),
)
