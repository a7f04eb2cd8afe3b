"""What may happen to a stream's volumes: lost, damaged, taken for one another. And what is on them."""

import json
from typing import Any, Final
from uuid import uuid4

from tests.e2e.support.kubectl import Kubectl, KubectlFailed, Object
from tests.e2e.support.stream import ClusterStream
from tests.support.patience import wait_for

CLAIMS: Final = "persistentvolumeclaims"

_SNAPSHOTS: Final = "volumesnapshots.snapshot.storage.k8s.io"
_CONTENTS: Final = "volumesnapshotcontents.snapshot.storage.k8s.io"
_STATE: Final = "/var/lib/dedupestream/state"

# Of each SST the middle; `apart` first makes it a file of its own, so that a checkpoint's hard link stays whole.
_DAMAGE: Final = """
import os, pathlib, shutil, sys
files = sorted(pathlib.Path(sys.argv[1], "db").glob("*.sst"))
for file in files:
    if sys.argv[2] == "apart":
        shutil.copy(file, f"{file}.damaged")
        os.replace(f"{file}.damaged", file)
    size = file.stat().st_size
    with file.open("r+b") as content:
        content.seek(size // 4)
        content.write(os.urandom(size // 4))
        content.flush()
        os.fsync(content.fileno())
print(len(files))
"""

_SWAP: Final = """
import os, pathlib, shutil
one, other = pathlib.Path("/volumes/0"), pathlib.Path("/volumes/1")
shutil.move(one / "state", other / "moving")
shutil.move(other / "state", one / "state")
os.rename(other / "moving", other / "state")
os.sync()
"""

_DIGEST: Final = """
import hashlib, json, pathlib
root = pathlib.Path("/volumes/0/state")
print(json.dumps({
    str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
    for file in sorted(root.rglob("*")) if file.is_file()
}))
"""


def volume_of(stream: ClusterStream, claim: str) -> str:
    """The PersistentVolume of a claim. Fails if it has none."""
    name: str = stream.kubectl.get(CLAIMS, claim)["spec"]["volumeName"]
    return name


def has_volume(stream: ClusterStream, partition: int) -> bool:
    """Whether the claim a partition has by the stream's status has got its volume."""
    claim = stream.kubectl.find(CLAIMS, claim_of(stream, partition))
    return bool(claim and claim["spec"].get("volumeName"))


def claim_of(stream: ClusterStream, partition: int) -> str:
    """The claim a partition has by the stream's status."""
    claim = stream.status().partitions[partition].persistent_volume_claim
    assert claim is not None
    return claim


def lose_volume(stream: ClusterStream, partition: int) -> str:
    """Delete a partition's claim and its pod, and wait until the volume is gone; returns the claim's name."""
    claim = claim_of(stream, partition)
    volume = volume_of(stream, claim)
    stream.kubectl("delete", CLAIMS, claim, "--wait=false")
    stream.kubectl(
        *("delete", "pod", stream.pod_name(partition), "--ignore-not-found"),
        *("--grace-period=0", "--force"),
    )
    stream.wait_until(
        lambda: stream.kubectl.find("persistentvolume", volume) is None,
        f"volume {volume} is gone",
    )
    return claim


def lose_copy(stream: ClusterStream, volume_snapshot: str) -> None:
    """Delete a copy in the storage itself, as at a cloud's console; its VolumeSnapshot stays ready.

    A second VolumeSnapshot of the same copy is made, as of one that exists already, and has the driver delete it.
    """
    status = stream.kubectl.get(_SNAPSHOTS, volume_snapshot)["status"]
    content = stream.kubectl.get(_CONTENTS, status["boundVolumeSnapshotContentName"])
    second = f"second-{content['metadata']['name']}"
    made = {
        "VolumeSnapshotContent": {
            "deletionPolicy": "Delete",
            "driver": content["spec"]["driver"],
            "source": {"snapshotHandle": content["status"]["snapshotHandle"]},
            "volumeSnapshotRef": {"name": second, "namespace": stream.namespace},
        },
        "VolumeSnapshot": {"source": {"volumeSnapshotContentName": second}},
    }
    for kind, spec in made.items():
        stream.kubectl.apply(
            {
                "apiVersion": content["apiVersion"],
                "kind": kind,
                "metadata": {"name": second},
                "spec": spec,
            }
        )
    stream.wait_until(
        lambda: (stream.kubectl.get(_SNAPSHOTS, second).get("status") or {}).get("readyToUse"),
        f"{second} is ready",
    )
    stream.kubectl.remove(_SNAPSHOTS, second)
    stream.wait_until(
        lambda: stream.kubectl.find(_CONTENTS, second) is None, f"the copy of {second} is gone"
    )


def forget_copy(stream: ClusterStream, volume_snapshot: str) -> None:
    """Delete a VolumeSnapshot whose copy is lost, and its content: the driver need not agree."""
    status = stream.kubectl.get(_SNAPSHOTS, volume_snapshot)["status"]
    freed = json.dumps({"metadata": {"finalizers": None}})
    for kind, name in (
        (_SNAPSHOTS, volume_snapshot),
        (_CONTENTS, status["boundVolumeSnapshotContentName"]),
    ):
        stream.kubectl("delete", kind, name, "--ignore-not-found", "--wait=false")
        if stream.kubectl.find(kind, name):
            stream.kubectl("patch", kind, name, "--type=merge", "--patch", freed)


def damage_store(stream: ClusterStream, partition: int, *, checkpoint_too: bool) -> int:
    """Overwrite a quarter of every SST of a running worker; returns how many there were."""
    how = "in place" if checkpoint_too else "apart"
    return int(
        stream.kubectl(
            *("exec", stream.pod_name(partition), "--"),
            *("python", "-c", _DAMAGE, _STATE, how),
        )
    )


def swap_volumes(stream: ClusterStream, first: int, second: int) -> None:
    """Exchange what is on two partitions' volumes; the stream is suspended."""
    claims = [claim_of(stream, partition) for partition in (first, second)]
    run_on_volumes(stream, claims, _SWAP)


def digests(stream: ClusterStream, claim: str) -> dict[str, str]:
    """The SHA-256 of every file of a claim that no worker uses, by its path."""
    found: dict[str, str] = json.loads(run_on_volumes(stream, [claim], _DIGEST))
    return found


def run_on_volumes(stream: ClusterStream, claims: list[str], program: str) -> str:
    """Run a Python program in a pod that has volumes at /volumes/0 and so on; returns what it printed."""
    name = f"hand-{uuid4().hex[:8]}"
    stream.kubectl.apply(_pod(stream, name, claims, program))
    try:
        wait_for(
            lambda: _phase(stream.kubectl, name) in {"Succeeded", "Failed"},
            f"{stream.namespace}/{name} has run",
            poll_seconds=0.5,
            explain=lambda: _said(stream.kubectl, name),
        )
        assert _phase(stream.kubectl, name) == "Succeeded", _said(stream.kubectl, name)
        return stream.kubectl("logs", name)
    finally:
        stream.kubectl("delete", "pod", name, "--grace-period=1")


def _phase(kubectl: Kubectl, pod: str) -> str:
    phase: str = kubectl.get("pod", pod)["status"]["phase"]
    return phase


def _said(kubectl: Kubectl, pod: str) -> str:
    try:
        return kubectl("logs", pod) + kubectl("describe", "pod", pod)
    except KubectlFailed as error:
        return str(error)


def _pod(stream: ClusterStream, name: str, claims: list[str], program: str) -> Object:
    """A pod with the rights of a worker's, under the restricted Pod Security Standard."""
    [like, *_] = stream.children("statefulsets")
    template: dict[str, Any] = like["spec"]["template"]["spec"]
    [worker] = template["containers"]
    volumes = [
        {"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(claims)
    ]
    mounts = [
        {"name": volume["name"], "mountPath": f"/volumes/{number}"}
        for number, volume in enumerate(volumes)
    ]
    container = {
        "name": "hand",
        "image": worker["image"],
        "imagePullPolicy": worker["imagePullPolicy"],
        "command": ["python", "-c", program],
        "securityContext": worker["securityContext"],
        "volumeMounts": mounts,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": template["securityContext"],
            "containers": [container],
            "volumes": volumes,
        },
    }
