"""The two kinds of cluster: our own (cluster.sh), and kind where docker works."""

import json
import os
import subprocess
from collections.abc import Sequence
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from typing import Protocol

from tests.cluster.errors import ClusterError, run
from tests.cluster.images import PARTS, Image, build_images, image_name
from tests.cluster.paths import CLUSTER_SH, REPOSITORY, STATE, cluster_cache, cluster_dir

_KIND_NAME = "dedupestream"
_MINUTE = 60.0


class Provider(Protocol):
    """A way to run a cluster."""

    kubeconfig: Path
    tools: Path
    node_control: Path | None

    def is_up(self) -> bool:
        """Check if the cluster is running."""

    def start(self, nodes: int) -> None:
        """Start the cluster unless it is running."""

    def stop(self) -> None:
        """Remove the cluster if it is running."""

    def host(self) -> str:
        """Return the address of this machine for pods."""

    def build_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build the images; return the file or the id of each part's image."""

    def load_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build the images and load them on the nodes; return a digest of each image."""


class OwnCluster:
    """The cluster of cluster.sh."""

    def __init__(self) -> None:
        self.kubeconfig = cluster_dir() / "kubeconfig"
        self.tools = cluster_cache() / "bin"
        self.node_control: Path | None = CLUSTER_SH

    def is_up(self) -> bool:
        """Check if the control plane is running."""
        command = [str(CLUSTER_SH), "exec", "@control", "true"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def start(self, nodes: int) -> None:
        """Install missing packages, build what is not in the cache, and start the cluster."""
        for command in ("prerequisites", "build", "up"):
            _run_visibly([CLUSTER_SH, command], CLUSTER_NODES=str(nodes))

    def stop(self) -> None:
        """Remove the cluster, and the remains of an interrupted start."""
        _run_visibly([CLUSTER_SH, "down"])

    def host(self) -> str:
        """Return the address that cluster.sh assigns to this machine."""
        return f"{os.environ.get('CLUSTER_NET') or '172.30'}.0.1"

    def build_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build the images with buildah, into archives."""
        return {image.part: str(image.archive) for image in build_images(parts)}

    def load_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build the images; load those that the nodes do not have."""
        images = build_images(parts)
        loaded = STATE / "loaded.json"
        known: dict[str, str] = json.loads(loaded.read_text()) if loaded.exists() else {}
        for image in images:
            if known.get(image.part) != image.key:
                self._load(image)
        keys = {image.part: image.key for image in images}
        STATE.mkdir(parents=True, exist_ok=True)
        loaded.write_text(json.dumps(known | keys))
        return keys

    def _load(self, image: Image) -> None:
        run(
            [CLUSTER_SH, "load-image", image.archive],
            what=f"loading {image.name} into the cluster",
            timeout_seconds=5 * _MINUTE,
        )


class Kind:
    """Kubernetes in Docker."""

    def __init__(self) -> None:
        self.kubeconfig = STATE / "kubeconfig"
        self.tools = cluster_cache() / "bin"
        self.node_control: Path | None = None

    def is_up(self) -> bool:
        """Check if kind lists the cluster."""
        if not self._kind.exists():
            return False
        names = run(
            [self._kind, "get", "clusters"], what="listing kind's clusters", timeout_seconds=_MINUTE
        )
        return _KIND_NAME in names.split()

    def start(self, nodes: int) -> None:
        """Build the tools that are not in the cache, and create the cluster."""
        _run_visibly([CLUSTER_SH, "build-tools"])
        if self.is_up():
            return
        roles = ["control-plane"] + ["worker"] * (nodes - 1)
        config = {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "nodes": [{"role": role} for role in roles],
        }
        STATE.mkdir(parents=True, exist_ok=True)
        run(
            [
                *(self._kind, "create", "cluster", "--name", _KIND_NAME, "--wait", "5m"),
                *("--kubeconfig", self.kubeconfig, "--config", "-"),
            ],
            what="kind create cluster",
            timeout_seconds=10 * _MINUTE,
            given=json.dumps(config),
        )

    def stop(self) -> None:
        """Delete the cluster with its containers."""
        if self.is_up():
            run(
                [
                    *(self._kind, "delete", "cluster", "--name", _KIND_NAME),
                    *("--kubeconfig", self.kubeconfig),
                ],
                what="kind delete cluster",
                timeout_seconds=5 * _MINUTE,
            )

    def host(self) -> str:
        """Return the gateway of kind's network."""
        text = run(
            ["docker", "network", "inspect", "kind", "--format", "{{json .IPAM.Config}}"],
            what="inspecting kind's docker network",
            timeout_seconds=_MINUTE,
        )
        gateways = [entry.get("Gateway") for entry in json.loads(text)]
        for gateway in filter(None, gateways):
            if isinstance(ip_address(gateway), IPv4Address):
                return str(gateway)
        raise ClusterError(f"kind's docker network has no IPv4 gateway: {text.strip()}")

    def build_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build the images with docker, which caches unchanged steps."""
        keys = {}
        for part in parts:
            name = image_name(part)
            run(
                ["docker", "build", "--target", part, "--tag", name, REPOSITORY],
                what=f"building {name}",
                timeout_seconds=30 * _MINUTE,
            )
            inspect = ["docker", "image", "inspect", name, "--format", "{{.Id}}"]
            keys[part] = run(inspect, what=f"inspecting {name}", timeout_seconds=_MINUTE).strip()
        return keys

    def load_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build the images; kind loads those that the nodes do not have."""
        keys = self.build_images(parts)
        for name in map(image_name, parts):
            run(
                [self._kind, "load", "docker-image", name, "--name", _KIND_NAME],
                what=f"loading {name} into kind",
                timeout_seconds=10 * _MINUTE,
            )
        return keys

    @property
    def _kind(self) -> Path:
        return self.tools / "kind"


def choose() -> Provider:
    """Return kind where docker works, else our own cluster."""
    return Kind() if _docker_works() else OwnCluster()


def _docker_works() -> bool:
    try:
        done = subprocess.run(
            ["docker", "info"],  # noqa: S607 # whichever docker is on the PATH
            check=False,
            capture_output=True,
            timeout=_MINUTE,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _run_visibly(command: Sequence[str | Path], **variables: str) -> None:
    """Run a command with its output on the terminal. Raises ClusterError."""
    done = subprocess.run(
        [str(part) for part in command], check=False, env={**os.environ, **variables}
    )
    if done.returncode != 0:
        what = " ".join(map(str, command))
        raise ClusterError(f"{what} failed ({done.returncode}); see its last lines above.")
