"""Description of the machine that figures were measured on."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import confluent_kafka
import psutil

from benchmarks.harness.model import Model
from dedupe_pipeline.runtime.jars import KAFKA_BROKER
from dedupe_worker.allocator import find_jemalloc

_LIBRARIES: Final = ("confluent-kafka", "rocksdict", "numpy")


class Machine(Model):
    """A machine and what runs on it."""

    measured: datetime
    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    python: str
    versions: dict[str, str]
    load_before: float
    """The machine's load average over the last minute, before anything was started."""


def describe_machine() -> Machine:
    """Describe this machine as it is now."""
    return Machine(
        measured=datetime.now(UTC),
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        versions={
            **{name: version(name) for name in _LIBRARIES},
            "librdkafka": confluent_kafka.libversion()[0],
            "Kafka broker": KAFKA_BROKER[0].rpartition(":")[2],
            "workers' allocator": "jemalloc" if find_jemalloc() else "the C library's",
        },
        load_before=os.getloadavg()[0],
    )


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown"
