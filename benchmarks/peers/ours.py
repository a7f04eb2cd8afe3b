"""This project with default settings, and the bare loop as the limit.

No Python worker can be faster than the bare loop. Two worker processes, as on Kubernetes. `dedupe run` would start the
same two, but refuses an output topic whose messages do not keep their timestamps; here the timestamps show when the
broker appended the messages.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from types import MappingProxyType
from typing import Final

from benchmarks.harness.router import UNKEYED_SPEC
from benchmarks.harness.stream import manifest_of
from benchmarks.harness.topics import ensure_topics
from benchmarks.peers.peer import PARTITIONS, Command, Job, Peer
from dedupe_crds.manifest import load_manifest


def _workers(job: Job, spec: Mapping[str, object] = MappingProxyType({})) -> list[Command]:
    manifest, token = job.state / "stream.yaml", job.state / "token"
    manifest.write_text(manifest_of(job.servers, job.source, job.target, spec))
    token.write_text("peers")
    return [
        [
            *(sys.executable, "-m", "dedupe_worker", "--config", manifest),
            *("--partition", f"{partition}", "--state-dir", job.state / f"{partition}"),
            *("--http", "127.0.0.1:0", "--admin-token-file", token),
        ]
        for partition in range(PARTITIONS)
    ]


def _router_and_workers(job: Job) -> list[Command]:
    workers = _workers(job, {**UNKEYED_SPEC, "repartition": {"partitions": PARTITIONS}})
    manifest = job.state / "stream.yaml"
    # The topic between them must exist, as the operator and `dedupe run` create it.
    ensure_topics(load_manifest(manifest), job.servers)
    router: Command = [sys.executable, "-m", "dedupe_router", "--config", manifest, "--router", "0"]
    return [[*router, "--http", "127.0.0.1:0"], *workers]


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

OURS_UNKEYED: Final = replace(
    OURS,
    configuration=f"spec.repartition: a router and {PARTITIONS} workers with default settings",
    commands=_router_and_workers,
    router_processes=1,
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
