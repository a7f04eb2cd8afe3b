"""An operator that may use nothing outside of its namespace, and may do no more than the documentation says."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.cluster.chart import NAMESPACE
from tests.cluster.environment import Environment
from tests.component.chart.rights import Rights, documented
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.operators import chart_at_rest
from tests.e2e.support.releases import Release
from tests.e2e.support.scene import Scene
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.traffic.traffic import retries

pytestmark = pytest.mark.alone

MESSAGES = 400
# As a platform that gives each namespace a range of its own does it, with the root group, which has no rights.
ASSIGNED = {"runAsUser": 1000680000, "runAsGroup": 0, "fsGroup": 1000680000}
OF_EVERY_USER = ("authentication.k8s.io", "authorization.k8s.io")


@pytest.fixture(scope="module")
def narrow(release: Environment, place: Scene) -> Iterator[str]:
    """A second release that has Roles only, beside the first, which rests; its name."""
    name = f"narrow-{uuid4().hex[:6]}"
    second = Release(release, name, place.namespace)
    given = Release(release).values()
    values = {
        "image": given["image"],
        "worker": given["worker"],
        "extraArgs": given["extraArgs"],
        "fullnameOverride": name,
        "rbac": {"clusterScope": False},
        "crds": {"install": False},
        "podIds": ASSIGNED,
    }
    with chart_at_rest(Kubectl(release)):
        second.upgrade(values=values)
        yield name
        second.uninstall()


def rights(kubectl: Kubectl, account: str, namespace: str) -> Rights:
    """Return what `kubectl auth can-i --list` shows of a ServiceAccount, without the rights of every user."""
    user = f"--as=system:serviceaccount:{account}"
    printed = kubectl.within(namespace)("auth", "can-i", "--list", "--no-headers", user)
    found: Rights = {}
    for line in printed.splitlines():
        resource, _, rest = line.strip().partition(" ")
        if not resource or resource.startswith("["):  # a URL, which is no resource
            continue
        name, _, group = resource.partition(".")
        if "/" in group:  # dedupestreams.dedupestream.io/status
            group, _, below = group.partition("/")
            name = f"{name}/{below}"
        if group not in OF_EVERY_USER:
            verbs = rest[rest.rindex("[") + 1 : rest.rindex("]")].split()
            found.setdefault((group, name), set()).update(verbs)
    return found


def merged(*tables: Rights) -> Rights:
    """The rights of several tables together."""
    found: Rights = {}
    for table in tables:
        for key, verbs in table.items():
            found.setdefault(key, set()).update(verbs)
    return found


@pytest.mark.proof
def test_the_cluster_gives_the_operator_what_the_documentation_says(kubectl: Kubectl) -> None:
    account = f"{NAMESPACE}:dedupestream-operator"
    everywhere = documented("streams", "cluster", "failover")
    assert rights(kubectl, account, "default") == everywhere
    assert rights(kubectl, account, NAMESPACE) == merged(everywhere, documented("release"))


@pytest.fixture(scope="module")
def stream(place: Scene, narrow: str) -> Iterator[ClusterStream]:
    """A stream of the operator that has Roles only."""
    assert narrow
    made = place.stream("orders", partitions=2)
    made.apply()
    made.wait_until_ready()
    yield made
    made.delete()


def test_a_stream_runs_with_roles_only(
    kubectl: Kubectl, place: Scene, narrow: str, stream: ClusterStream
) -> None:
    account = f"{place.namespace}:{narrow}-operator"
    assert rights(kubectl, account, place.namespace) == documented("streams", "release")
    assert rights(kubectl, account, "default") == {}
    stream.send(retries(SEED, MESSAGES, partitions=2))
    stream.judged()
    stream.patch(storage={"size": "160Mi"})
    stream.wait_until(lambda: capacities(stream) == {"160Mi"}, "the volumes have grown")
    stream.kubectl("delete", "pod", stream.pod_name(0), "--wait=false")
    stream.wait_until_ready()
    degraded = stream.condition("Degraded")
    assert degraded is not None
    assert degraded.reason != "Forbidden", degraded.message


def capacities(stream: ClusterStream) -> set[str]:
    claims = stream.children("persistentvolumeclaims")
    return {claim["status"]["capacity"]["storage"] for claim in claims}


def test_its_workers_run_as_the_user_that_the_platform_assigns(stream: ClusterStream) -> None:
    asks = "import os; print(os.getuid(), os.getgid(), os.stat('/var/lib/dedupestream').st_gid)"
    told = stream.kubectl("exec", stream.pod_name(0), "-c", "worker", "--", "python", "-c", asks)
    assert told.split() == [str(ASSIGNED[name]) for name in ASSIGNED]


def test_a_pod_that_the_api_server_refuses_is_told_of_and_nothing_restarts(
    stream: ClusterStream,
) -> None:
    pods = stream.uids("pods")
    stream.patch(worker={"tolerations": [{"key": "a", "operator": "Sometimes"}]})
    degraded = stream.wait_for_condition("Degraded", reason="Invalid")
    assert "tolerations[0].operator" in degraded.message
    assert stream.uids("pods") == pods
    stream.patch(worker={"tolerations": None})
    stream.wait_until_rolled_out()
    assert stream.uids("pods") == pods


@pytest.mark.matrix  # tests/unit/operator/resources and decide/test_drift.py
def test_a_sidecar_starts_with_the_worker_and_is_no_drift(
    release: Environment, stream: ClusterStream
) -> None:
    sidecar = {
        "name": "extra",
        "image": release.worker_image,
        "command": ["python", "-c", "import time; time.sleep(1e6)"],
        "stdin": False,
        "resources": {"limits": {"cpu": 1, "memory": "0.5Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch", "readOnly": False}],
    }
    volumes = [{"name": "scratch", "emptyDir": {"sizeLimit": "1024Ki"}}]
    stream.patch(worker={"sidecars": [sidecar], "volumes": volumes})
    stream.wait_until_rolled_out()
    pod = stream.kubectl.get("pod", stream.pod_name(1))
    assert [each["name"] for each in pod["spec"]["containers"]] == ["worker", "extra"]
    stream.send(retries(SEED, MESSAGES, partitions=2, start=MESSAGES))
    stream.judged()
