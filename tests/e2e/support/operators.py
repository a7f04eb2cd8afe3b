"""Operators as processes of this machine, each for one namespace: started, stopped at a write, counted."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import httpx

from dedupe_local import tether
from dedupe_local.broker import free_ports
from tests.cluster.chart import NAMESPACE
from tests.cluster.environment import Environment
from tests.cluster.paths import REPOSITORY
from tests.e2e.support.kubectl import Kubectl

_STOP_SECONDS = 15.0
_DEPLOYMENT = "deployment/dedupestream-operator"


class LocalOperator:
    """An operator for one namespace. Started again, it is the same replica: it has its Lease at once."""

    def __init__(self, cluster: Environment, namespace: str, log: Path) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def start(self, *, stop_after_writes: int | None = None) -> None:
        """Start it; with `stop_after_writes` it is gone right after so many writes to the API server."""
        (self._port,) = free_ports(1)
        program = ["dedupe_operator"]
        if stop_after_writes is not None:
            program = ["tests.e2e.support.stopping_operator", str(stop_after_writes)]
        command: list[str | Path] = [sys.executable, "-m", *program]
        command += [f"--namespace={self._namespace}", f"--lease-namespace={self._namespace}"]
        command += [f"--worker-image={self._cluster.worker_image}", "--identity=here"]
        command += [f"--http=127.0.0.1:{self._port}"]
        env = {
            **os.environ,
            "KUBECONFIG": self._cluster.kubeconfig,
            "PYTHONPATH": str(REPOSITORY),
        }
        with self._log.open("ab") as log:
            self._process = tether.spawn(command, output=log, env=env)

    @property
    def exit_code(self) -> int | None:
        """How it ended, None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def writes(self) -> float:
        """Writes to the API server since its start, its Lease apart."""
        return sum(
            count for verb, count in self._requests() if verb in {"patch", "post", "delete", "put"}
        )

    def reads(self) -> float:
        """Reads from the API server since its start, its Lease and its watches apart."""
        return sum(count for verb, count in self._requests() if verb == "get")

    def metrics(self) -> str:
        """GET /metrics. Raises httpx.TransportError if nobody answers."""
        answer = httpx.get(f"http://127.0.0.1:{self._port}/metrics", timeout=5)
        return answer.raise_for_status().text

    def stop(self) -> None:
        """Ask it to stop."""
        if self._process is not None:
            tether.stop([self._process], deadline_seconds=_STOP_SECONDS)
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _requests(self) -> Iterator[tuple[str, float]]:
        for line in self.metrics().splitlines():
            if line.startswith("dedupe_operator_api_requests_total{"):
                labels, _, count = line.partition("} ")
                yield labels.rpartition('verb="')[2].rstrip('"'), float(count)


@contextmanager
def chart_at_rest(kubectl: Kubectl) -> Iterator[None]:
    """The chart's operator stopped, so that another one may act; started again at the end."""
    within = kubectl.within(NAMESPACE)
    within("scale", _DEPLOYMENT, "--replicas=0")
    within(
        "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=operator", "--timeout=60s"
    )
    try:
        yield
    finally:
        within("scale", _DEPLOYMENT, "--replicas=1")
        within("rollout", "status", _DEPLOYMENT, "--timeout=120s")
