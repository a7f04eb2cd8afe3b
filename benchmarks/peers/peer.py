"""A peer: how it is installed and started, and its guarantee."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

PARTITIONS: Final = 2
"""Of the input and of the output, and the tasks of every peer: as many as the machine that this began on has cores."""

COMMIT_SECONDS: Final = 1
"""Seconds between commits of peers that commit by time, unless their default is better."""

PRODUCER: Final[Mapping[str, str]] = {"compression.type": "lz4", "linger.ms": "100"}
"""Settings of every peer's producer.

A commit flushes it, so lingering only fills batches; 100 ms is the default of Kafka Streams. librdkafka's default
batches are of 1 MB at most, as ours are.
"""

JAVA_PRODUCER: Final[Mapping[str, str]] = {**PRODUCER, "batch.size": str(128 << 10)}
"""Java's default batches are of 16 KiB at most; 100 to 200 kB are recommended for throughput."""


class Job(NamedTuple):
    """The task of a peer: `records` are in each partition of the topic `source`.

    `state` is its directory, which it finds again after a crash.
    """

    servers: str
    source: str
    target: str
    state: Path
    records: Sequence[int]


Command = Sequence[str | Path]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A configured system. It works until SIGTERM."""

    name: str
    title: str
    guarantee: str
    """Its guarantee for the output: "exactly once" or "at least once"."""
    configuration: str
    """A short text for the page; the reasons are in the comments of its module."""
    install: Callable[[], object]
    """Fetch and build what it needs, unless it is there."""
    commands: Callable[[Job], list[Command]]
    """The processes that it consists of, after `install`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    removes_duplicates: bool = True
    """False for the bare loop, which only copies."""
    router_processes: int = 0
    """The first processes, which only write to the repartition topic of the output, as our routers do."""
