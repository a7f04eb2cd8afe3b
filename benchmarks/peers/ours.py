"""This project with default settings, and the bare loop as the limit.

No Python worker can be faster than the bare loop. Two worker processes, as on Kubernetes. `dedupe run` would start the
same two, but refuses an output topic whose messages do not keep their timestamps; here the timestamps show when the
broker appended the messages.
"""

import sys
from importlib.metadata import version
from typing import Final

from benchmarks.harness.processes import manifest_of
from benchmarks.peers.peer import PARTITIONS, Command, Job, Peer


def _workers(job: Job) -> list[Command]:
    manifest, token = job.state / "stream.yaml", job.state / "token"
    manifest.write_text(manifest_of(job.servers, job.source, job.target, {}))
    token.write_text("peers")
    return [
        [
            *(sys.executable, "-m", "dedupe_worker", "--config", manifest),
            *("--partition", f"{partition}", "--state-dir", job.state / f"{partition}"),
            *("--http", "127.0.0.1:0", "--admin-token-file", token),
        ]
        for partition in range(PARTITIONS)
    ]


def _bare_loops(job: Job) -> list[Command]:
    loop = ("benchmarks.harness.bare_loop", job.servers, job.source, job.target, job.target)
    return [
        [sys.executable, "-m", *loop, f"{records}", f"{partition}"]
        for partition, records in enumerate(job.records)
    ]


OURS: Final = Peer(
    name="ours",
    title=f"dedupestream {version('dedupestream')}",
    guarantee="exactly once",
    configuration=f"{PARTITIONS} workers with default settings",
    install=lambda: None,
    commands=_workers,
)

BARE: Final = Peer(
    name="bare",
    title="bare loop",
    guarantee="exactly once",
    configuration=f"{PARTITIONS} processes that consume and produce in transactions and remember nothing",
    install=lambda: None,
    commands=_bare_loops,
    removes_duplicates=False,
)
