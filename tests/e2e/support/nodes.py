"""Nodes as machines that fail: switched off, cut off, drained; and well again at the end in any case."""

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from tests.cluster.chart import NAMESPACE
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.operator_pods import OperatorPods
from tests.support.patience import HANG_SECONDS, wait_for


class Nodes:
    """The nodes of a cluster, at least two of them."""

    def __init__(self, cluster: Environment) -> None:
        self._cluster = cluster
        self._kubectl = Kubectl(cluster)

    def names(self) -> list[str]:
        """Those that are ready and take pods."""
        return [
            node["metadata"]["name"]
            for node in self._kubectl.items("nodes")
            if _ready(node) == "True" and not node["spec"].get("unschedulable")
        ]

    @contextmanager
    def killed(self, name: str) -> Iterator[None]:
        """A node whose power is gone; what it had not flushed to its disks is lost."""
        try:
            self._control("kill-node", name)
            yield
        finally:
            self._control("start-node", name)
            self._wait_until_ready(name)

    @contextmanager
    def cut_off(self, name: str) -> Iterator[None]:
        """A node that the API server can't reach and that does not reach it; its pods go on."""
        try:
            self._control("partition-node", name, "api")
            yield
        finally:
            self._control("heal-node", name)
            self._wait_until_ready(name)

    @contextmanager
    def drained(self, name: str) -> Iterator[None]:
        """A node that `kubectl drain` has emptied."""
        try:
            self._kubectl(
                *(
                    "drain",
                    name,
                    "--ignore-daemonsets",
                    "--delete-emptydir-data",
                    f"--timeout={HANG_SECONDS:.0f}s",
                ),
            )
            yield
        finally:
            self._kubectl("uncordon", name)

    @contextmanager
    def closed_but(self, name: str) -> Iterator[None]:
        """All other nodes take no pods, so that new ones come to this one."""
        others = [other for other in self.names() if other != name]
        try:
            self._kubectl("cordon", *others)
            yield
        finally:
            self._kubectl("uncordon", *others)

    def wait_until_not_ready(self, name: str) -> datetime:
        """Wait until Kubernetes has noticed; returns since when it says so."""

        def noticed() -> datetime | None:
            node = self._kubectl.get("node", name)
            return None if _ready(node) == "True" else _since(node)

        return wait_for(noticed, f"{name} is not ready", poll_seconds=0.5)

    def away_from_operator(self, names: Iterable[str]) -> str:
        """Return one of these nodes that the chart's operator is not on; it is moved if there is no such node."""
        found = min(names, key=lambda name: len(self._operators_on(name)))
        self.keep_operator_away_from(found)
        return found

    def keep_operator_away_from(self, name: str) -> None:
        """Have the chart's operator run on another node, if it is on this one."""
        if not (here := self._operators_on(name)):
            return
        within = self._kubectl.within(NAMESPACE)
        self._kubectl("cordon", name)
        try:
            within.remove("pods", *(pod["metadata"]["name"] for pod in here))
            OperatorPods(self._kubectl).wait_until_available()
        finally:
            self._kubectl("uncordon", name)

    def _operators_on(self, name: str) -> list[Object]:
        operators = OperatorPods(self._kubectl).running()
        return [pod for pod in operators if pod["spec"].get("nodeName") == name]

    def run(self, name: str, *command: str) -> str:
        """Run a program on a node, as its root; returns what it printed."""
        return self._control("exec", f"@{name}", *command)

    def _wait_until_ready(self, name: str) -> None:
        wait_for(
            lambda: _ready(self._kubectl.get("node", name)) == "True",
            f"{name} is ready",
            poll_seconds=0.5,
        )

    def _control(self, *arguments: str) -> str:
        assert self._cluster.node_control is not None
        done = subprocess.run(
            [self._cluster.node_control, *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            env={**os.environ, **self._cluster.variables(), "PATH": self._cluster.path()},
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr[-2000:]}"
        return done.stdout


def nodes_of(cluster: Environment) -> Nodes:
    """The nodes, for tests in which they fail. Skips where nobody may switch them off, fails where there is but one."""
    if cluster.node_control is None:
        pytest.skip("NODE_CONTROL is not set: nobody says how nodes of this cluster are killed")
    nodes = Nodes(cluster)
    names = nodes.names()
    assert len(names) > 1, f"two nodes are needed, and there is {names}: make cluster-up NODES=2"
    return nodes


def _condition(node: Object) -> Object:
    return next(one for one in node["status"]["conditions"] if one["type"] == "Ready")


def _ready(node: Object) -> str:
    return str(_condition(node)["status"])


def _since(node: Object) -> datetime:
    return datetime.fromisoformat(_condition(node)["lastTransitionTime"])
