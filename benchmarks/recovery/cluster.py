"""Time that a partition on Kubernetes is without a worker.

`python -m benchmarks.recovery.cluster` needs a cluster with the chart and volumes that have snapshots; `make
bench-recovery` starts one. For each size of the store, one stream of one partition without traffic loses its pod, and
then its pod and its volume: first without snapshots, then with a CSI snapshot, then with a snapshot in a bucket on this
machine.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import numpy as np

from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.s3_server import S3Server
from benchmarks.harness.traffic import Sender
from benchmarks.recovery.failover import Climb, Failover, Rung
from benchmarks.reporting.command import (
    Recorder,
    console,
    output_option,
    page_option,
    rounds_option,
    update_pages,
)
from benchmarks.reporting.render import FAILOVER
from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import RestoreSource
from tests.cluster import environment
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.namespaces import make_namespace
from tests.e2e.support.snapshots import Snapshots, partition_status
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.topics import Topics
from tests.support.traffic.streams import stream_manifest

SIZES: Final = (1_000_000, 10_000_000)

_SECRET: Final = "bucket"  # noqa: S105 # its name
_POLL_SECONDS: Final = 0.2
_DEADLINE_SECONDS: Final = 900.0
_SPEC: Final[dict[str, Any]] = {
    "store": {"window": {"maxBytes": "1Gi"}},
    "storage": {"size": "2560Mi", "reclaimPolicy": "Delete"},
    "worker": {"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}},
}
_SOURCES: Final = {
    Rung.CSI: RestoreSource.SNAPSHOT,
    Rung.S3: RestoreSource.CHECKPOINT,
    Rung.REBUILD: RestoreSource.OUTPUT_TOPIC,
}


class Outage(NamedTuple):
    """Seconds from the loss, and from the new container's start, until a pod is ready."""

    whole: float
    in_container: float


class Bench:
    """A stream with so many ids in its output topic, all on a cluster."""

    def __init__(self, stream: ClusterStream, keys: int, rounds: int) -> None:
        self._stream = stream
        self._snapshots = Snapshots(stream)
        self._keys = keys
        self._rounds = rounds

    def begin(self) -> None:
        """Apply it, and wait until its worker has rebuilt the store."""
        self._stream.apply()
        self._settle()

    def keep_snapshots(self, name: str, **snapshots: object) -> None:
        """Give it `spec.snapshots`, and take a snapshot."""
        self._stream.patch(snapshots=snapshots)
        self._settle()
        self._snapshots.ask(name)
        self._snapshots.wait(name, SnapshotPhase.COMPLETED, deadline_seconds=_DEADLINE_SECONDS)

    def climb(self, rung: Rung) -> Climb:
        """Lose the pod, or pod and volume, several times.

        Raises BenchmarkFailed if the store comes back from another source.
        """
        outages = []
        for _ in range(self._rounds):
            outages.append(self._outage(with_volume=rung is not Rung.REATTACH))
            self._settle()
            self._check(rung)
        return Climb(
            keys=self._keys,
            rung=rung,
            seconds=[outage.whole for outage in outages],
            start_seconds=[outage.in_container for outage in outages],
        )

    def _outage(self, *, with_volume: bool) -> Outage:
        kubectl, pod = self._stream.kubectl, self._stream.pod_name(0)
        claim = partition_status(self._stream, 0).persistent_volume_claim or ""
        lost = kubectl.get("pod", pod)["metadata"]["uid"]
        began = time.time()
        if with_volume:
            kubectl("delete", "persistentvolumeclaim", claim, "--wait=false")
        kubectl("delete", "pod", pod, "--grace-period=0", "--force")
        while (started := self._ready_since(pod, lost)) is None:
            if time.time() - began > _DEADLINE_SECONDS:
                raise BenchmarkFailed(f"{pod} is not back after {_DEADLINE_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
        now = time.time()
        return Outage(now - began, now - started)

    def _ready_since(self, pod: str, lost: str) -> float | None:
        """Return when the container of a new ready pod was started; else None."""
        found = self._stream.kubectl.find("pod", pod)
        if found is None or found["metadata"]["uid"] == lost:
            return None
        status = found["status"]
        conditions = {each["type"]: each["status"] for each in status.get("conditions", [])}
        if conditions.get("Ready") != "True":
            return None
        [container] = status["containerStatuses"]
        return datetime.fromisoformat(container["state"]["running"]["startedAt"]).timestamp()

    def _check(self, rung: Rung) -> None:
        restore = partition_status(self._stream, 0).restore
        worker = self._stream.worker_status(0)
        if rung in _SOURCES and (restore is None or restore.source is not _SOURCES[rung]):
            raise BenchmarkFailed(f"not {rung}, but: {restore}")
        if worker.window.keys < self._keys:
            raise BenchmarkFailed(f"{worker.window.keys} ids after {rung}, not {self._keys}")

    def _settle(self) -> None:
        self._stream.wait_until_rolled_out(deadline_seconds=_DEADLINE_SECONDS)


@contextmanager
def benches(
    cluster: Environment, keys: int, rounds: int, report: Callable[[str], None]
) -> Iterator[Bench]:
    """Provide a stream in its own namespace, not applied yet.

    Both are deleted with their topics when the block ends.
    """
    kubectl = Kubectl(cluster)
    topics = Topics(cluster.kafka_bootstrap)
    namespace = make_namespace(kubectl, "recovery")
    within = kubectl.within(namespace)
    try:
        source = topics.create(namespace)
        target = topics.create(f"{namespace}-clean")
        report(f"{keys:,} ids: writing the output topic")
        Sender(cluster.kafka_bootstrap, target).send(np.arange(keys))
        secret = {"credentials": S3Server.credentials}
        within.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": _SECRET},
                "stringData": secret,
            }
        )
        with tempfile.TemporaryDirectory() as directory:
            stream = _stream(
                cluster, within, namespace, Path(directory), source=source, target=target
            )
            yield Bench(stream, keys, rounds)
    finally:
        within("delete", f"dedupestreams.{GROUP}", "--all")
        kubectl("delete", "namespace", namespace)
        topics.delete_all()


def _stream(
    cluster: Environment,
    kubectl: Kubectl,
    namespace: str,
    directory: Path,
    *,
    source: str,
    target: str,
) -> ClusterStream:
    reached = cluster.kafka_bootstrap_in_cluster
    written = stream_manifest(directory, reached, source, target, **_SPEC)
    return ClusterStream(
        name=written.name,
        namespace=namespace,
        bootstrap_servers=cluster.kafka_bootstrap,
        input_topic=source,
        output_topic=target,
        manifest=written.manifest,
        kubectl=kubectl,
        partitions=1,
    )


def measure_failover(
    cluster: Environment,
    server: S3Server,
    *,
    sizes: tuple[int, ...],
    rounds: int,
    report: Callable[[str], None],
) -> Failover:
    """Measure all sources with each size.

    Raises BenchmarkFailed, or AssertionError if something takes too long.
    """
    climbs = []
    for keys in sorted(sizes):
        with benches(cluster, keys, rounds, report) as bench:
            report(f"{keys:,} ids: waiting until the stream is ready")
            bench.begin()
            for rung in Rung:
                report(f"{keys:,} ids: {rung}")
                if rung is Rung.CSI:
                    bench.keep_snapshots("csi", provider="CSI")
                if rung is Rung.S3:
                    credentials = {"credentialsSecretRef": {"name": _SECRET}}
                    bench.keep_snapshots("s3", **server.snapshots(**credentials))
                climbs.append(bench.climb(rung))
    return Failover(nodes=len(Kubectl(cluster).items("nodes")), climbs=climbs)


@click.command(context_settings={"show_default": True})
@click.option(
    "--ids",
    "sizes",
    type=click.IntRange(min=1),
    multiple=True,
    default=SIZES,
    help="May be repeated.",
)
@rounds_option
@output_option
@page_option
def main(sizes: tuple[int, ...], rounds: int, output: Path, page: Path) -> None:
    """Measure on the cluster at hand; updates docs/performance.md."""
    recorder = Recorder(output)
    cluster = environment.current()
    host, _, _ = cluster.kafka_bootstrap_in_cluster.rpartition(":")
    output.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=output, prefix="scratch-") as scratch,
        S3Server(Path(scratch).absolute(), host) as server,
        console.status("starting") as status,
    ):
        result = measure_failover(cluster, server, sizes=sizes, rounds=rounds, report=status.update)
    recorder.save(result)
    update_pages([FAILOVER], output, page)


if __name__ == "__main__":
    main()
