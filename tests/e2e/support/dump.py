"""What a failed test leaves to look at: build/e2e/<test>/."""

import json
import re
import shutil
from pathlib import Path

from tests.cluster.chart import NAMESPACE as OPERATOR_NAMESPACE
from tests.cluster.paths import REPOSITORY
from tests.e2e.support.kubectl import Kubectl, KubectlFailed

# Not Secrets: they hold tokens.
_KINDS = (
    "dedupestreams,statefulsets,pods,services,configmaps,serviceaccounts,persistentvolumeclaims,"
    "poddisruptionbudgets,resourcequotas"
)
_OPERATOR = "app.kubernetes.io/component=operator"


def directory_of(test: str) -> Path:
    """Where a test's findings go."""
    return REPOSITORY / "build" / "e2e" / re.sub(r"[^A-Za-z0-9_.-]+", "-", test).strip("-")


def dump(kubectl: Kubectl, namespace: str, directory: Path) -> None:
    """Write down the objects, the events and the logs of a namespace and of the operator."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    within, operator = kubectl.within(namespace), kubectl.within(OPERATOR_NAMESPACE)
    _write(directory / "objects.yaml", within, "get", _KINDS, "-o", "yaml")
    _write(directory / "objects.txt", within, "get", _KINDS, "-o", "wide")
    _write(directory / "events.txt", within, "get", "events", "--sort-by=.lastTimestamp")
    _write(directory / "volumes.txt", kubectl, "get", "persistentvolumes,volumeattachments")
    _write(directory / "nodes.txt", kubectl, "describe", "nodes")
    _write(directory / "operator.txt", operator, "get", "pods,leases", "-o", "wide")
    _dump_logs(operator, directory, "operator", "--selector", _OPERATOR)
    _dump_logs(within, directory, "pod")


def _dump_logs(kubectl: Kubectl, directory: Path, prefix: str, *chosen: str) -> None:
    try:
        pods = json.loads(kubectl("get", "pods", *chosen, "-o", "json"))["items"]
    except KubectlFailed as error:
        (directory / f"{prefix}-logs.txt").write_text(str(error))
        return
    for pod in pods:
        name = pod["metadata"]["name"]
        _write(directory / f"{prefix}-{name}.log", kubectl, "logs", name, "--all-containers")
        restarts = [each["restartCount"] for each in pod["status"].get("containerStatuses", [])]
        if any(restarts):
            previous = directory / f"{prefix}-{name}.previous.log"
            _write(previous, kubectl, "logs", name, "--all-containers", "--previous")


def _write(path: Path, kubectl: Kubectl, *arguments: str) -> None:
    try:
        path.write_text(kubectl(*arguments))
    except KubectlFailed as error:
        path.write_text(str(error))
