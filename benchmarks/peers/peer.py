"""What a peer is to the benchmark: how it is installed, how it is started, and what it promises."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

PARTITIONS: Final = 2
"""Of the input and of the output, and the tasks of every peer: as many as the machine that this began on has cores."""

COMMIT_SECONDS: Final = 1
"""How often a peer commits that does so by the clock, unless its own default does better."""

PRODUCER: Final[Mapping[str, str]] = {"compression.type": "lz4", "linger.ms": "100"}
"""What every peer's producer has. A commit flushes it, so lingering only fills batches; 100 ms is the default of Kafka
Streams. librdkafka's own batches are of 1 MB at most, as ours are."""

JAVA_PRODUCER: Final[Mapping[str, str]] = {**PRODUCER, "batch.size": str(128 << 10)}
"""Java's batches are of 16 KiB at most by themselves: for throughput 100 to 200 kB are what is recommended."""


class Job(NamedTuple):
    """What a peer is to do: `records` are in each partition of the topic `source`.

    `state` is a directory of its own, which it finds again after a crash.
    """

    servers: str
    source: str
    target: str
    state: Path
    records: Sequence[int]


Command = Sequence[str | Path]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A system, configured. What it is told to do it does until SIGTERM."""

    name: str
    title: str
    guarantee: str
    """What it promises of its output: "exactly once" or "at least once"."""
    configuration: str
    """In a few words, for the page; the reasons are in the comments beside it."""
    install: Callable[[], object]
    """Fetch and build what it needs, unless it is there."""
    commands: Callable[[Job], list[Command]]
    """The processes that it consists of, after `install`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    removes_duplicates: bool = True
    """Whether it does the work at all: the bare loop only copies."""
