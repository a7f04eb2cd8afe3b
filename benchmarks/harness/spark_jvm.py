"""The costs of a Spark job in local mode: of its JVM, and on disk."""

import json
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from benchmarks.harness.model import Model


class Written(Model):
    """Bytes that tasks have written to disk.

    `spilled` is what did not fit into memory, as it is on disk.
    """

    shuffled: int
    spilled: int


def jvm_of(spark: SparkSession) -> psutil.Process:
    """Return the process of the session's JVM, which is a child of this one."""
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr] # noqa: SLF001
    return psutil.Process(pid)


def peak_bytes(process: psutil.Process) -> int:
    """Return the most resident memory that a process has had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def written(event_log: Path, from_ms: int, to_ms: int) -> Written:
    """Return what the tasks in the log of an application wrote in this time."""
    shuffled = spilled = 0
    for file in event_log.rglob("events_*"):
        for line in file.open():
            event = json.loads(line)
            info = event.get("Task Info")
            if info and from_ms <= info["Launch Time"] <= to_ms and "Task Metrics" in event:
                metrics = event["Task Metrics"]
                shuffled += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                spilled += metrics["Disk Bytes Spilled"]
    return Written(shuffled=shuffled, spilled=spilled)
