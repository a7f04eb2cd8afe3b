"""Quix Streams: the same libraries as ours, so the difference is the design.

The libraries are confluent-kafka and rocksdict. State is scoped to the message's key, in RocksDB and a changelog
topic; exactly-once by transactions that hold output, changelog and offsets. The GIL binds a process to one core. So
there is one process for each partition, as Quix's own documentation scales out.
"""

from functools import partial
from typing import Final

from benchmarks.peers.install import PROGRAMS, virtual_environment
from benchmarks.peers.peer import COMMIT_SECONDS, PARTITIONS, PRODUCER, Command, Job, Peer

VERSION: Final = "3.28.1"

_COMMON: Final = f"{PARTITIONS} processes, commit each {COMMIT_SECONDS} s, block cache 512 MiB"


def _install() -> None:
    virtual_environment("quix")


def _commands(job: Job, options: str) -> list[Command]:
    python = virtual_environment("quix") / "bin" / "python"
    producer = [f"{name}={value}" for name, value in PRODUCER.items()]
    return [
        [
            *(python, PROGRAMS / "quix_dedup.py", job.servers, job.source, job.target),
            *(job.state / f"instance-{instance}", f"{instance}", f"{COMMIT_SECONDS}", options),
            *producer,
        ]
        for instance in range(PARTITIONS)
    ]


QUIX: Final = Peer(
    name="quix",
    title=f"Quix Streams {VERSION}",
    guarantee="exactly once",
    configuration=f"filter(stateful=True), get_bytes and set_bytes; {_COMMON}",
    install=_install,
    commands=partial(_commands, options="stock"),
)

QUIX_BLOOM: Final = Peer(
    name="quix-bloom",
    title=f"Quix Streams {VERSION}, Bloom filter",
    guarantee="exactly once",
    configuration="as above, with OptimizeForPointLookup: a Bloom filter that lookups use, see quix_dedup.py",
    install=_install,
    commands=partial(_commands, options="bloom"),
)
