"""Run an operator with many streams at rest; measure it, and its requests to the API server.

    python -m benchmarks.operator_load --streams 500 --partitions 16 --minutes 10

The operator is the real process, and so is Kafka. The Kubernetes cluster is pretended, by another process. All streams
read one topic; each has its own output.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
import httpx
import psutil
from rich.progress import Progress

from benchmarks.operator_load.result import OperatorLoad
from benchmarks.reporting.command import Recorder, output_option, page_option, update_pages
from benchmarks.reporting.render import OPERATOR_LOAD
from dedupe_kafka.cluster import Cluster as Kafka
from dedupe_local.servers.kafka import EmbeddedBroker, free_ports
from tests.unit.crds.manifests import changed

_NAMESPACES: Final = 10
_UNTIL_READY_SECONDS: Final = 3600.0
_SETTLE_SECONDS: Final = 90.0
_POLL_SECONDS: Final = 2.0


class Cluster:
    """The process that pretends a cluster."""

    def __init__(self, stack: ExitStack, partitions: int) -> None:
        (port,) = free_ports(1, "127.0.0.1")
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "benchmarks.operator_load.cluster", str(port)]
        self.process = _started(
            stack, [*command, str(partitions)], stdout=subprocess.PIPE, env=dict(os.environ)
        )
        if self.process.stdout is None or not self.process.stdout.readline():
            raise click.ClickException("the pretended cluster did not start: is port 8080 free?")
        self._http = stack.enter_context(httpx.Client(base_url=self.url, timeout=60))

    def kubeconfig(self, path: Path) -> Path:
        """Write how to reach it."""
        cluster = {"name": "c", "cluster": {"server": self.url}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        whole: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": "c"}
        whole |= {"clusters": [cluster], "contexts": [context]}
        path.write_text(json.dumps(whole | {"users": [{"name": "u", "user": {"token": "t"}}]}))
        return path

    def apply(self, manifest: dict[str, Any]) -> None:
        """Create a stream."""
        namespace = manifest["metadata"]["namespace"]
        path = f"/apis/dedupestream.io/v1alpha1/namespaces/{namespace}/dedupestreams"
        self._http.post(path, json=manifest).raise_for_status()

    def requests(self) -> Counter[str]:
        """Return how often each kind of request was made."""
        return Counter(self._http.get("/requests").json())

    def ready(self) -> int:
        """Return the number of streams that are ready."""
        found = self._http.get("/apis/dedupestream.io/v1alpha1/dedupestreams").json()["items"]
        return sum(
            any(
                (one["type"], one["status"]) == ("Ready", "True")
                for one in each.get("status", {}).get("conditions", [])
            )
            for each in found
        )


def _started(stack: ExitStack, command: list[str], **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 # subprocess's
    process = subprocess.Popen(command, **options)  # our own

    def end() -> None:
        process.terminate()
        process.wait(60)

    stack.callback(end)
    return process


def _operator(stack: ExitStack, kubeconfig: Path, log: Path) -> psutil.Process:
    (port,) = free_ports(1, "127.0.0.1")
    options = [f"--http=127.0.0.1:{port}", "--lease-namespace=shop-0", "--worker-image=worker:1"]
    out = stack.enter_context(log.open("wb"))
    command = [sys.executable, "-m", "dedupe_operator", *options]
    env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return psutil.Process(_started(stack, command, stdout=out, stderr=out, env=env).pid)


def _manifest(number: int, servers: str) -> dict[str, Any]:
    changes = {
        "metadata.name": f"stream-{number}",
        "metadata.namespace": f"shop-{number % _NAMESPACES}",
        "spec.kafka.bootstrapServers": servers,
        "spec.input.topic": "raw",
        "spec.output.topic": f"clean-{number}",
    }
    manifest = changed(changes)
    manifest["metadata"] |= {"generation": 1, "creationTimestamp": "2026-11-01T11:00:00Z"}
    return manifest


def _create(cluster: Cluster, streams: int, servers: str, log: Path) -> None:
    """Create all streams and wait until they are ready."""
    for number in range(streams):
        cluster.apply(_manifest(number, servers))
    deadline = time.monotonic() + _UNTIL_READY_SECONDS
    with Progress() as progress:
        task = progress.add_task("streams ready", total=streams)
        while (ready := cluster.ready()) < streams:
            if time.monotonic() > deadline:
                raise click.ClickException(f"{ready} of {streams} streams are ready: see {log}")
            progress.update(task, completed=ready)
            time.sleep(_POLL_SECONDS)


@click.command()
@click.option("--streams", default=500, show_default=True)
@click.option("--partitions", default=16, show_default=True)
@click.option("--minutes", default=10.0, show_default=True)
@output_option
@page_option
def main(streams: int, partitions: int, minutes: float, output: Path, page: Path) -> None:
    """Measure an operator at rest."""
    recorder = Recorder(output)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = EmbeddedBroker(directory / "kafka", heap="1g")
        broker.start()
        stack.callback(broker.stop)
        Kafka(broker.bootstrap_servers).ensure_input("raw", partitions)
        cluster = Cluster(stack, partitions)
        output.mkdir(parents=True, exist_ok=True)
        log = output / "operator-load.log"
        operator = _operator(stack, cluster.kubeconfig(directory / "kubeconfig"), log)
        began = time.monotonic()
        _create(cluster, streams, broker.bootstrap_servers, log)
        ready_seconds = time.monotonic() - began
        time.sleep(_SETTLE_SECONDS)
        use = _measure(cluster, operator, minutes * 60)
        recorder.save(
            OperatorLoad(streams=streams, partitions=partitions, ready_seconds=ready_seconds, **use)
        )
    update_pages([OPERATOR_LOAD], output, page)


def _measure(cluster: Cluster, operator: psutil.Process, seconds: float) -> dict[str, Any]:
    """Return the use over some time."""
    before, requests, began = _cpu(operator), cluster.requests(), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    return {
        "seconds": passed,
        "cpu_seconds": _cpu(operator) - before,
        "memory_bytes": operator.memory_info().rss,
        "requests": cluster.requests() - requests,
    }


def _cpu(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])


if __name__ == "__main__":
    main()
