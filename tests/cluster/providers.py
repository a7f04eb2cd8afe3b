"""The two kinds of cluster that are made here: cluster.sh's own, and kind where docker works."""

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
    """A way to have a cluster."""

    kubeconfig: Path
    tools: Path
    node_control: Path | None

    def is_up(self) -> bool:
        """Whether the cluster is there."""

    def start(self, nodes: int) -> None:
        """Start it, if it is not there."""

    def stop(self) -> None:
        """Remove all of it, if it is there."""

    def host(self) -> str:
        """This machine's address as pods see it."""

    def build_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build our images; returns where each part's is, or what it is."""

    def load_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build our images and put them on the nodes; returns a key of each part's content."""


class OwnCluster:
    """cluster.sh."""

    def __init__(self) -> None:
        self.kubeconfig = cluster_dir() / "kubeconfig"
        self.tools = cluster_cache() / "bin"
        self.node_control: Path | None = CLUSTER_SH

    def is_up(self) -> bool:
        """Whether its control plane runs."""
        asked = [str(CLUSTER_SH), "exec", "@control", "true"]
        return subprocess.run(asked, check=False, capture_output=True).returncode == 0

    def start(self, nodes: int) -> None:
        """Install what this machine lacks, build what is not in the cache, and start it."""
        for command in ("prerequisites", "build", "up"):
            _run_visibly([CLUSTER_SH, command], CLUSTER_NODES=str(nodes))

    def stop(self) -> None:
        """Remove it, and what an interrupted start has left."""
        _run_visibly([CLUSTER_SH, "down"])

    def host(self) -> str:
        """The address that cluster.sh gives this machine."""
        return f"{os.environ.get('CLUSTER_NET') or '172.30'}.0.1"

    def build_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build them without a container engine, into archives."""
        _run_visibly([CLUSTER_SH, "prerequisites"])
        _run_visibly([CLUSTER_SH, "build"])
        return {image.part: str(image.archive) for image in build_images(parts)}

    def load_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build them as well; the nodes get those they do not have."""
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
        """Whether kind knows the cluster."""
        if not self._kind.exists():
            return False
        names = run([self._kind, "get", "clusters"], what="asking kind", timeout_seconds=_MINUTE)
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
        """The gateway of kind's network."""
        text = run(
            ["docker", "network", "inspect", "kind", "--format", "{{json .IPAM.Config}}"],
            what="asking docker for kind's network",
            timeout_seconds=_MINUTE,
        )
        gateways = [entry.get("Gateway") for entry in json.loads(text)]
        for gateway in filter(None, gateways):
            if isinstance(ip_address(gateway), IPv4Address):
                return str(gateway)
        raise ClusterError(f"kind's docker network has no IPv4 gateway: {text.strip()}")

    def build_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build them with docker, which keeps what has not changed."""
        keys = {}
        for part in parts:
            name = image_name(part)
            run(
                ["docker", "build", "--target", part, "--tag", name, REPOSITORY],
                what=f"building {name}",
                timeout_seconds=30 * _MINUTE,
            )
            inspect = ["docker", "image", "inspect", name, "--format", "{{.Id}}"]
            keys[part] = run(inspect, what=f"asking for {name}", timeout_seconds=_MINUTE).strip()
        return keys

    def load_images(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Build them, and have kind copy those that the nodes do not have."""
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
    """kind where docker works, else our own cluster."""
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
    """Run something that says how far it is. Raises ClusterError."""
    done = subprocess.run(
        [str(part) for part in command], check=False, env={**os.environ, **variables}
    )
    if done.returncode != 0:
        what = " ".join(map(str, command))
        raise ClusterError(f"{what} failed ({done.returncode}); its last lines above say why.")
