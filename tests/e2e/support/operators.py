"""Operators as processes of this machine, each for one namespace: started, stopped at a write, counted."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Lock
from typing import Self

from tests.cluster.chart import LEASE, NAMESPACE
from tests.cluster.environment import Environment
from tests.e2e.support import operator_process
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.operator_pods import DEPLOYMENT, OperatorPods
from tests.e2e.support.stopping_operator import STOPPED
from tests.support.patience import HANG_SECONDS, patience, wait_for
from tests.support.processes.loopback import HTTP

_STOP_SECONDS = 60.0
_LOST_ITS_LEASE = "the Lease is lost"
_LAST_LINES = 5

# Tests start hundreds of operators, and importing one takes two CPU seconds: these are forked from a process that has.
_operators = get_context("forkserver")
_operators.set_forkserver_preload([operator_process.__name__])

# A start asks all children of this process whether they have ended. Of two threads that ask at once one reads the exit
# code, and the other one 255.
_CHILDREN = Lock()


class LocalOperator:
    """An operator for one namespace. Started again, it is the same replica: it has its Lease at once.

    `has_stopped` tells whether it was seen to be gone after the writes that it was started for.
    """

    def __init__(self, cluster: Environment, namespace: str, log: Path) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._log = log
        self._process: ForkServerProcess | None = None
        self._log_begins = 0
        self._stop_after_writes: int | None = None
        self.has_stopped = False

    def start(self, *, stop_after_writes: int | None = None) -> None:
        """Start it; with `stop_after_writes` it is gone right after so many writes to the API server."""
        self._stop_after_writes = stop_after_writes
        self._log_begins = self._log.stat().st_size if self._log.exists() else 0
        arguments = [f"--namespace={self._namespace}", f"--lease-namespace={self._namespace}"]
        arguments += [f"--worker-image={self._cluster.worker_image}", "--identity=here"]
        arguments += ["--worker-probe-port=8081"]  # as the chart's, or each would roll the other's
        arguments += [LEASE, "--http=127.0.0.1:0"]  # any free port, which its log names
        self._process = _operators.Process(
            target=operator_process.run,
            args=(arguments, self._cluster.kubeconfig, self._log, stop_after_writes),
        )
        with _CHILDREN:
            self._process.start()

    @property
    def exit_code(self) -> int | None:
        """How it ended, None while it runs."""
        assert self._process is not None
        with _CHILDREN:
            return self._process.exitcode

    def assert_runs(self) -> None:
        """Assert that it runs; it is started again, as by Kubernetes, if it has stopped as it was to.

        Or if a machine at its limits cost it its Lease.
        """
        if self.exit_code is None:
            return
        if self.exit_code == STOPPED:
            self.has_stopped = True
            self.start()
            return
        lines = self._log.read_text().splitlines()[-_LAST_LINES:]
        assert any(_LOST_ITS_LEASE in line for line in lines), (
            f"it ended by itself with {self.exit_code}: {lines}"
        )
        self.start(stop_after_writes=self._stop_after_writes)

    def writes(self) -> float:
        """Writes to the API server since its start, its Lease apart."""
        return sum(
            count for verb, count in self._requests() if verb in {"patch", "post", "delete", "put"}
        )

    def reads(self) -> float:
        """Reads from the API server since its start, its Lease and its watches apart."""
        return sum(count for verb, count in self._requests() if verb == "get")

    def metrics(self) -> str:
        """GET /metrics. Fails before it serves. Raises httpx.TransportError if nobody answers."""
        log = self._log.read_bytes()[self._log_begins :].decode()
        found = re.search(r"HTTP at ([0-9.]+:[0-9]+)", log)
        assert found, f"it does not serve yet: {log}"
        answer = HTTP.get(f"http://{found[1]}/metrics", timeout=HANG_SECONDS)
        return answer.raise_for_status().text

    def stop(self) -> None:
        """Ask it to stop."""
        if self._process is not None:
            self._process.terminate()
            ended = self._process.sentinel
            patience(_STOP_SECONDS).wait_for(lambda: wait([ended], 0), poll_seconds=0.05)
            self._process.kill()  # if it is still there
            self._process.join()
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
    within, operators = kubectl.within(NAMESPACE), OperatorPods(kubectl)
    scale = ("scale", f"deployment/{DEPLOYMENT}")
    within(*scale, "--replicas=0")
    wait_for(lambda: not operators.all(), "the operator is gone", poll_seconds=0.5)
    try:
        yield
    finally:
        within(*scale, "--replicas=1")
        operators.wait_until_available()
