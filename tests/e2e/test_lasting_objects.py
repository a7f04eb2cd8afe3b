"""Objects that outlive a stream: no tool prunes them, no earlier policy ties them, no finalizer holds a namespace."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from dedupe_crds.spec.stream import API_VERSION, GROUP
from dedupe_crds.status.snapshot import KIND as SNAPSHOT
from dedupe_crds.status.stream import ConditionStatus
from tests.cluster import chart
from tests.cluster.environment import Environment
from tests.cluster.errors import ClusterError
from tests.cluster.paths import CHART
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.namespaces import SMALL
from tests.e2e.support.releases import Release
from tests.e2e.support.stream import KIND, ClusterStream
from tests.support.patience import HANG_SECONDS, wait_for

CreateStream = Callable[..., ClusterStream]

CLAIMS: Final = "persistentvolumeclaims"
SNAPSHOTS: Final = f"dedupesnapshots.{GROUP}"
INSTANCE: Final = "app.kubernetes.io/instance"
OLD_LABELS: Final = {
    "app.kubernetes.io/name": "dedupestream",
    "app.kubernetes.io/component": "worker",
    "app.kubernetes.io/part-of": "dedupestream",
    "app.kubernetes.io/managed-by": "dedupestream-operator",
}
OPERATIONS: Final = Path(__file__).parents[2] / "docs/operations.md"
UNINSTALL: Final = OPERATIONS.read_text().split("\n## Uninstall\n")[1].split("\n## ")[0]


def apply_as_before(stream: ClusterStream, claim: Object) -> None:
    """Apply a claim as the release did that gave it the label of GitOps tools."""
    metadata = claim["metadata"]
    wanted = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {**metadata["labels"], **OLD_LABELS, INSTANCE: stream.name},
            "annotations": {f"{GROUP}/wanted-hash": "as-before"},
            "ownerReferences": metadata["ownerReferences"],
        },
        "spec": {
            key: claim["spec"][key] for key in ("accessModes", "resources", "storageClassName")
        },
    }
    stream.kubectl(
        *("apply", "--server-side", "--force-conflicts"),
        *("--field-manager", "dedupestream-operator", "-f", "-"),
        given=json.dumps(wanted),
    )


def scheduled_snapshot(stream: ClusterStream, name: str) -> Object:
    """One of a schedule, as an earlier release created it."""
    labels = {**OLD_LABELS, INSTANCE: stream.name, f"{GROUP}/stream": stream.name}
    return {
        "apiVersion": API_VERSION,
        "kind": SNAPSHOT,
        "metadata": {"name": name, "labels": {**labels, f"{GROUP}/scheduled": "true"}},
        "spec": {"streamRef": {"name": stream.name}},
    }


def test_what_an_earlier_release_made_is_no_longer_pruned_and_retain_keeps_it(
    streams: CreateStream,
) -> None:
    stream = streams()
    stream.apply()
    stream.wait_until_ready()
    pods = stream.uids("pods")
    (claim,) = stream.children(CLAIMS)
    assert INSTANCE not in claim["metadata"]["labels"]
    pause = f"{GROUP}/pause-reconciliation"
    stream.kubectl("annotate", KIND, stream.name, f"{pause}=true")
    stream.wait_for_condition("ReconciliationPaused", ConditionStatus.TRUE)
    apply_as_before(stream, claim)
    stream.kubectl.apply(scheduled_snapshot(stream, "earlier"))
    selector = f"{INSTANCE}={stream.name}"
    assert len(stream.kubectl.items(f"{CLAIMS},{SNAPSHOTS}", selector)) == 2
    stream.kubectl("annotate", KIND, stream.name, f"{pause}-")

    stream.wait_until(
        lambda: not stream.kubectl.items(f"{CLAIMS},{SNAPSHOTS}", selector),
        "no GitOps tool takes its claims and snapshots for its own",
    )
    (claim,) = stream.children(CLAIMS)
    for found in (claim, stream.kubectl.get(SNAPSHOTS, "earlier")):
        options = found["metadata"]["annotations"]["argocd.argoproj.io/sync-options"]
        assert options == "Prune=false,Delete=false"
    assert stream.uids("pods") == pods

    assert claim["metadata"]["ownerReferences"]
    stream.patch(storage={"reclaimPolicy": "Retain"})
    stream.wait_until_rolled_out()
    (claim,) = stream.children(CLAIMS)
    assert "ownerReferences" not in claim["metadata"]
    stream.delete()
    stream.wait_until(lambda: not stream.children("pods,statefulsets"), "all but its claim is gone")
    assert [each["metadata"]["uid"] for each in stream.children(CLAIMS)] == [
        claim["metadata"]["uid"]
    ]


@pytest.fixture
def uninstalled(release: Environment) -> Iterator[None]:
    """Have the chart uninstalled when asked; it is installed again at the end."""
    yield
    chart.install(release)


@pytest.mark.alone
@pytest.mark.usefixtures("uninstalled")
def test_after_an_uninstall_workers_go_on_and_the_documented_command_frees_a_namespace(
    release: Environment,
    kubectl: Kubectl,
    streams: CreateStream,
) -> None:
    stream = streams(**SMALL)
    stream.apply()
    stream.wait_until_ready()
    held = scheduled_snapshot(stream, "held")
    held["metadata"]["finalizers"] = [f"{GROUP}/copies"]
    stream.kubectl.apply(held)
    pods = stream.uids("pods")

    values = Release(release).values()
    chart.uninstall(release)
    assert kubectl.find("customresourcedefinitions", f"dedupestreams.{GROUP}")
    assert stream.uids("pods") == pods

    kubectl("delete", "namespace", stream.namespace, "--wait=false")
    wait_for(
        lambda: f"{GROUP}/copies" in json.dumps(kubectl.get("namespaces", stream.namespace)),
        "the namespace waits for the finalizer",
        poll_seconds=0.5,
    )
    release_snapshots(release)
    wait_for(
        lambda: kubectl.find("namespaces", stream.namespace) is None,
        "the namespace is gone",
        poll_seconds=0.5,
    )

    another = Release(release, "another", "another-system")
    with pytest.raises(ClusterError, match="invalid ownership metadata"):
        another.upgrade(CHART, values, "--create-namespace")
    assert "--create-namespace --take-ownership" in UNINSTALL
    another.upgrade(CHART, values, "--create-namespace", "--take-ownership")
    another.uninstall()
    kubectl("delete", "namespace", "another-system")


def release_snapshots(cluster: Environment) -> None:
    """Run what the runbook says."""
    *_, command = re.findall(r"```sh\n(.*?)```", UNINSTALL, re.DOTALL)
    assert "finalizers" in command
    env = {**os.environ, "KUBECONFIG": cluster.kubeconfig, "PATH": cluster.path()}
    subprocess.run(["bash", "-euc", command], env=env, check=True, timeout=HANG_SECONDS)  # noqa: S607 # of the runbook
