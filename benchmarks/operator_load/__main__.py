"""Run an operator with many streams at rest; print what it and the API server do.

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
def main(streams: int, partitions: int, minutes: float) -> None:
    """Measure an operator at rest."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = EmbeddedBroker(directory / "kafka", heap="1g")
        broker.start()
        stack.callback(broker.stop)
        _make_input(broker.bootstrap_servers, partitions)
        cluster = Cluster(stack, partitions)
        kubeconfig = cluster.kubeconfig(directory / "kubeconfig")
        log = Path("build/operator-load.log")
        log.parent.mkdir(exist_ok=True)
        operator = _operator(stack, kubeconfig, log)
        began = time.monotonic()
        _create(cluster, streams, broker.bootstrap_servers, log)
        click.echo(f"{streams} streams ready after {time.monotonic() - began:.0f} s")
        time.sleep(_SETTLE_SECONDS)
        _measure(cluster, operator, minutes * 60)


def _make_input(servers: str, partitions: int) -> None:
    Kafka(servers).ensure_input("raw", partitions)


def _measure(cluster: Cluster, operator: psutil.Process, seconds: float) -> None:
    """Print the shares of a core, and requests a second, over some time."""
    api = psutil.Process(cluster.process.pid)
    before, requests, began = _cpu(operator, api), cluster.requests(), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    after, made = _cpu(operator, api), cluster.requests() - requests
    of_operator, of_api = ((now - then) / passed for then, now in zip(before, after, strict=True))
    memory = operator.memory_info().rss / 2**20
    click.echo(
        f"operator: {of_operator:.2f} cores, {memory:.0f} MiB; pretended cluster: {of_api:.2f} cores"
    )
    click.echo(f"requests to the API server: {sum(made.values()) / passed:.1f} a second, of these")
    for what, count in made.most_common():
        click.echo(f"  {count / passed:8.2f} {what}")


def _cpu(*processes: psutil.Process) -> list[float]:
    return [sum(each.cpu_times()[:2]) for each in processes]


if __name__ == "__main__":
    main()
