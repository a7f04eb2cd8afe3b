"""What happens to single pods, and what must stay as it was."""

import json
from dataclasses import dataclass
from typing import Final

from tests.e2e.support.identity import Identity, identities
from tests.e2e.support.kubectl import Kubectl, KubectlFailed, Object
from tests.e2e.support.stream import ClusterStream

# Each child is smaller than the worker, which is therefore the one that the kernel chooses.
_HOG: Final = """
import os, time
for _ in range(100):
    if os.fork() == 0:
        held = bytearray(b"x" * (24 << 20))
        time.sleep(30)
        os._exit(0)
    time.sleep(0.02)
"""
# Whatever is let go is taken at once, until the volume has grown: then all that was taken stays so.
_FILL: Final = """
import os, time
here = "/var/lib/dedupestream"
if os.fork():
    os._exit(0)
os.setsid()
for number in (0, 1, 2):
    os.dup2(os.open(os.devnull, os.O_RDWR), number)
blocks = os.statvfs(here).f_blocks
filler = open(f"{here}/filler", "ab", buffering=0)
while os.statvfs(here).f_blocks == blocks:
    for size in (1 << 20, 1 << 10, 1):
        try:
            while True:
                filler.write(bytes(size))
        except OSError:
            pass
    time.sleep(0.01)
"""


@dataclass(frozen=True, kw_only=True)
class Before:
    """A stream as it was ahead of a fault."""

    stream: ClusterStream
    identities: list[Identity]
    rungs: list[object]
    pods: dict[str, str]

    @classmethod
    def of(cls, stream: ClusterStream) -> "Before":
        """A stream that is ready."""
        return cls(
            stream=stream,
            identities=identities(stream),
            rungs=rungs(stream),
            pods=stream.uids("pods"),
        )

    def assert_same_volumes(self) -> None:
        """Each partition has the number, the topics and the volume that it had, and has not climbed down the ladder."""
        assert identities(self.stream) == self.identities
        assert rungs(self.stream) == self.rungs

    def wait_until_replaced(self, partition: int) -> None:
        """Wait until a partition has another pod, which is ready, as the operator says."""
        name = self.stream.pod_name(partition)

        def replaced() -> bool:
            uid = self.stream.uids("pods").get(f"Pod/{name}")
            if uid is None or uid == self.pods[f"Pod/{name}"]:
                return False
            return self.stream.status().partitions[partition].ready and is_ready(
                pod_of(self.stream, partition)
            )

        self.stream.wait_until(replaced, f"partition {partition} has another pod, which is ready")


def rungs(stream: ClusterStream) -> list[object]:
    """Which rung of the ladder gave each partition its store, and why; it stays while the volume does."""
    return [one.restore for one in stream.status().partitions]


def pod_of(stream: ClusterStream, partition: int) -> Object:
    """A partition's pod."""
    return stream.kubectl.get("pod", stream.pod_name(partition))


def is_ready(pod: Object) -> bool:
    """Whether a pod is ready, and not on its way out."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def starts_of(pod: Object) -> int:
    """How often a pod's worker was started again."""
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def last_exit_of(pod: Object) -> int | None:
    """The exit code of the process before a pod's present one, None without one."""
    before = pod["status"]["containerStatuses"][0].get("lastState", {}).get("terminated")
    return None if before is None else int(before["exitCode"])


def evict(stream: ClusterStream, partition: int) -> None:
    """Ask for an eviction, as a drain does. Raises KubectlFailed if the PodDisruptionBudget forbids it."""
    name = stream.pod_name(partition)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": stream.namespace},
    }
    path = f"/api/v1/namespaces/{stream.namespace}/pods/{name}/eviction"
    stream.kubectl("create", "--raw", path, "-f", "-", given=json.dumps(eviction))


def use_up_memory(kubectl: Kubectl, pod: str) -> None:
    """Have the kernel kill a pod's worker, whose memory has a limit, for want of memory."""
    try:
        kubectl("exec", pod, "--", "python", "-c", _HOG)
    except KubectlFailed:
        return  # it was killed along with the worker


def fill_volume(kubectl: Kubectl, pod: str) -> None:
    """Leave no space on a pod's volume, from now on until the volume has grown or the pod has ended."""
    kubectl("exec", pod, "--", "python", "-c", _FILL)
