"""Installs or upgrades the chart in a cluster."""

import fcntl
import json
import os
from pathlib import Path

from tests.cluster.environment import Environment
from tests.cluster.errors import ClusterError, run
from tests.cluster.paths import CHART, STATE
from tests.support.patience import HANG_SECONDS

NAMESPACE = "dedupestream-system"
RELEASE = "dedupestream"

_HELM_SECONDS = 180
# Nothing is tested of an operator that a busy machine keeps from renewing its Lease.
LEASE = "--lease-seconds=60"
_TAINTS = "custom-columns=NODE:.metadata.name,TAINTS:.spec.taints[*].key"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def install(cluster: Environment, *, made_from: str = "", chart: Path = CHART) -> None:
    """Install or upgrade the chart, and wait until the operator is available.

    `made_from` identifies the build of the operator's image: a new build with the same image name
    restarts the operator. Raises ClusterError with the state and the log of the operator's pods.
    """
    STATE.mkdir(parents=True, exist_ok=True)
    with (STATE / "chart.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # helm rejects a second installation at the same time
        _install(cluster, made_from, chart)


def _install(cluster: Environment, made_from: str, chart: Path) -> None:
    env = _env(cluster)
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": RESTRICTED},
    }
    run(
        ["kubectl", "apply", "--server-side", "-f", "-"],
        what=f"creating namespace {NAMESPACE}",
        timeout_seconds=60,
        env=env,
        given=json.dumps(namespace),
    )
    try:
        run(
            [
                *("helm", "upgrade", "--install", RELEASE, chart, "--namespace", NAMESPACE),
                "--wait",
                "--timeout",
                f"{HANG_SECONDS}s",
                "--values",
                "-",
                # Adopt CRDs that were applied by hand.
                "--take-ownership",
                # Keep the other values of the release: a second install changes nothing.
                "--reset-then-reuse-values",
            ],
            what="installing the chart",
            timeout_seconds=_HELM_SECONDS,
            env=env,
            given=json.dumps(_values(cluster, made_from)),
        )
    except ClusterError as error:
        raise ClusterError(f"{error}\n{operator_diagnostics(cluster)}") from error


def uninstall(cluster: Environment) -> None:
    """Remove the chart as a user does, and wait until its objects are gone. Raises ClusterError."""
    run(
        ["helm", "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait"],
        what="uninstalling the chart",
        timeout_seconds=_HELM_SECONDS,
        env=_env(cluster),
    )


def _env(cluster: Environment) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": cluster.kubeconfig, "PATH": cluster.path()}


def _values(cluster: Environment, made_from: str) -> dict[str, object]:
    return {
        "image": _image(cluster.operator_image),
        "worker": {"image": _image(cluster.worker_image)},
        "extraArgs": [LEASE],
        **({"podAnnotations": {"dedupestream.io/image": made_from}} if made_from else {}),
    }


def _image(name: str) -> dict[str, str]:
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"}


def operator_diagnostics(cluster: Environment) -> str:
    """Return the state of the operator's pods and of the nodes, with events and the end of the log."""
    env = _env(cluster)
    of_operator = ["--namespace", NAMESPACE, "-l", "app.kubernetes.io/component=operator"]
    questions = (
        ["kubectl", "get", "pods", *of_operator, "-o", "wide"],
        ["kubectl", "get", "nodes", "-o", _TAINTS],
        ["kubectl", "get", "events", "--namespace", NAMESPACE, "--sort-by=.lastTimestamp"],
        ["kubectl", "logs", *of_operator, "--tail=20", "--prefix"],
    )
    answers = []
    for question in questions:
        try:
            answers.append(run(question, what=" ".join(question), timeout_seconds=30, env=env))
        except ClusterError as error:
            answers.append(str(error))
    return "\n".join(answers)
