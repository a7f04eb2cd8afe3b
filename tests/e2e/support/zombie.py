"""A worker that runs on where Kubernetes does not see it any more."""

import json
from pathlib import Path
from typing import Any

import psutil

from tests.cluster.paths import cluster_dir
from tests.e2e.support.kubectl import Object
from tests.e2e.support.nodes import Nodes
from tests.support.patience import wait_for

_FENCED_SECONDS = 60.0


class Zombie:
    """The process, the log and the volume of a pod, as its machine has them; the API server is not asked."""

    def __init__(self, nodes: Nodes, pod: Object) -> None:
        metadata = pod["metadata"]
        self._nodes = nodes
        self._node: str = pod["spec"]["nodeName"]
        self._uid: str = metadata["uid"]
        self._logs = (
            cluster_dir()
            / "log"
            / self._node
            / "pods"
            / f"{metadata['namespace']}_{metadata['name']}_{self._uid}"
            / "worker"
        )

    def runs(self) -> bool:
        """Whether a worker's process is there."""
        return any(self._is_it(process) for process in psutil.process_iter())

    def log(self) -> list[dict[str, Any]]:
        """What it has logged, in each of its starts."""
        lines = [line for path in sorted(self._logs.glob("*.log*")) for line in _lines(path)]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def wait_until_standing_by(self) -> None:
        """Wait until Kafka has fenced it, and it was started again, to do nothing any more."""

        def stands_by() -> bool:
            log = self.log()
            return bool(log) and log[-1]["event"] == "worker stands by"

        wait_for(
            stands_by,
            "the old worker stands by",
            deadline_seconds=_FENCED_SECONDS,
            poll_seconds=0.5,
            explain=lambda: "\n".join(map(str, self.log()[-10:])),
        )

    def last_write(self) -> float:
        """When a file of its store's volume was last written to, in seconds since 1970.

        It may write to /tmp: there it notes that it was fenced.
        """
        pod = cluster_dir() / "nodes" / self._node / "kubelet" / "pods" / self._uid
        root = pod / "volumes" / "kubernetes.io~csi"
        told = self._nodes.run(self._node, "find", str(root), "-type", "f", "-printf", "%T@ %p\n")
        return max(float(line.split()[0]) for line in told.splitlines())

    def _is_it(self, process: psutil.Process) -> bool:
        try:
            return (
                "dedupe-worker" in " ".join(process.cmdline())
                and self._uid in Path(f"/proc/{process.pid}/cgroup").read_text()
            )
        except (psutil.Error, OSError):
            return False  # it has ended since


def _lines(path: Path) -> list[str]:
    """A container's lines; the kubelet puts a time, a stream and a mark ahead of each."""
    return [line.split(" ", 3)[-1] for line in path.read_text().splitlines()]
