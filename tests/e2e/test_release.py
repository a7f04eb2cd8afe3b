"""The chart's life around streams that run: upgraded, with two replicas, with few rights, removed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import uuid4

import pytest

from dedupe_crds.openapi import PLURAL
from dedupe_crds.spec.stream import GROUP
from tests.cluster.environment import Environment
from tests.e2e.support.api_server import ApiServer
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.leaders import LeadersWatched
from tests.e2e.support.operator_pods import OperatorPods
from tests.e2e.support.operators import chart_at_rest
from tests.e2e.support.releases import Release, Values, previous_chart
from tests.e2e.support.scene import Scene
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.undisturbed import state_of
from tests.faults.seed import SEED
from tests.support.patience import wait_for
from tests.support.traffic.traffic import retries

pytestmark = pytest.mark.alone

PARTITIONS = 2
MESSAGES = 400
NEW_FIELD = {"failover": {"nodeNotReadyAfter": "90s"}}


@dataclass(frozen=True, kw_only=True)
class Upgraded:
    """A stream of the previous release, and how it was before the upgrade."""

    stream: ClusterStream
    state: list[str]
    new_field_problems: list[str]


@pytest.fixture(scope="module")
def main_release(release: Environment) -> Iterator[Release]:
    """The release of the cluster's operator, restored at the end."""
    main = Release(release)
    with main.restored():
        yield main


@pytest.fixture(scope="module")
def operators(release: Environment) -> OperatorPods:
    return OperatorPods(Kubectl(release))


@pytest.fixture(scope="module")
def upgraded(
    release: Environment, main_release: Release, place: Scene, operators: OperatorPods
) -> Upgraded:
    """Install the previous release, make a stream, and upgrade to this one."""
    packed = main_release.package(previous_chart(place.directory), place.directory)
    main_release.upgrade(packed)
    stream = place.stream("orders", partitions=PARTITIONS)
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED, MESSAGES, partitions=PARTITIONS))
    before = Upgraded(
        stream=stream,
        state=state_of(stream),
        new_field_problems=ApiServer(release)
        .change(stream.namespace, stream.name, {"spec": NEW_FIELD})
        .problems,
    )
    main_release.upgrade()
    wait_for_leader(operators)
    return before


def wait_for_leader(operators: OperatorPods, but: str = "") -> str:
    """Wait until one of the operators that stay leads, and return its pod's name."""

    def leader() -> str | None:
        pods = [pod["metadata"]["name"] for pod in operators.running()]
        return next((pod for pod in pods if pod != but and operators.leads(pod)), None)

    return wait_for(leader, "an operator leads", poll_seconds=0.5)


def wait_until_observed(stream: ClusterStream, seconds: int) -> None:
    """Change what rolls no worker, and wait until an operator has seen it."""
    stream.patch(failover={"nodeNotReadyAfter": f"{seconds}s"})
    stream.wait_until_ready()


def test_an_upgrade_leaves_streams_alone_and_brings_the_new_fields(upgraded: Upgraded) -> None:
    stream = upgraded.stream
    assert any('unknown field "spec.failover"' in line for line in upgraded.new_field_problems)
    stream.patch(**NEW_FIELD)
    stream.wait_until_ready()
    assert stream.get()["spec"]["failover"] == NEW_FIELD["failover"]
    assert state_of(stream) == upgraded.state
    stream.judged()


def test_of_two_operators_one_leads_and_the_other_takes_over(
    upgraded: Upgraded, main_release: Release, operators: OperatorPods, kubectl: Kubectl
) -> None:
    main_release.upgrade(values={"replicas": 2})
    first = wait_for_leader(operators)
    [standby] = {pod["metadata"]["name"] for pod in operators.running()} - {first}
    [namespace] = {pod["metadata"]["namespace"] for pod in operators.running()}

    with LeadersWatched(operators) as watched:
        wait_until_observed(upgraded.stream, 91)
        kubectl.within(namespace)("delete", "pod", first, "--wait=false")
        second = wait_for_leader(operators, but=first)
        wait_until_observed(upgraded.stream, 92)
        wait_for(lambda: second in watched.led, "the watch has seen it")

    assert second != first
    assert {first, second} <= set(watched.led)
    assert standby in operators.starts()
    watched.assert_one_at_a_time()
    assert state_of(upgraded.stream) == upgraded.state


@pytest.mark.matrix  # tests/unit/operator/test_scope.py
def test_an_operator_of_one_namespace_leaves_the_others_alone(
    release: Environment,
    main_release: Release,
    place: Scene,
    kubectl: Kubectl,
    namespace: str,
) -> None:
    name = f"narrow-{uuid4().hex[:6]}"
    narrow = Release(release, name, namespace)
    given = main_release.values()
    outside = place.stream("outside")
    inside = replace(place.stream("inside"), namespace=namespace, kubectl=kubectl.within(namespace))
    with chart_at_rest(kubectl):
        narrow.upgrade(values=narrow_values(name, namespace, given))
        outside.apply()
        inside.apply()
        inside.wait_until_ready()
        assert "status" not in outside.get()
        assert outside.children("statefulsets,services,configmaps,persistentvolumeclaims") == []
        user = f"--as=system:serviceaccount:{namespace}:{name}-operator"
        for verb, kind in (("get", "secrets"), ("list", "pods"), ("patch", "statefulsets.apps")):
            asked = ("auth", "can-i", verb, kind, user)
            assert kubectl.within(namespace)(*asked).strip() == "yes"
            assert kubectl.within(place.namespace).refused(*asked) == ""
        narrow.uninstall()
    outside.wait_until_ready()
    outside.delete()


def narrow_values(name: str, namespace: str, given: Values) -> Values:
    """The values of a second release beside the first, for one namespace."""
    return {
        "image": given["image"],
        "worker": given["worker"],
        "extraArgs": given["extraArgs"],
        "fullnameOverride": name,
        "watch": {"namespaces": [namespace]},
        "crds": {"install": False},
        "userRoles": {"create": False},
    }


@pytest.mark.matrix  # the uninstall of test_lasting_objects.py
def test_without_the_release_streams_stay_and_their_workers_run_on(
    upgraded: Upgraded, main_release: Release, kubectl: Kubectl, operators: OperatorPods
) -> None:
    stream = upgraded.stream
    with main_release.restored():
        main_release.uninstall()
        wait_for(lambda: not operators.all(), "the operator is gone")
        kubectl("get", "crd", f"{PLURAL}.{GROUP}")
        stream.send(retries(SEED, MESSAGES, partitions=PARTITIONS, start=MESSAGES))
        stream.judged()
        assert state_of(stream) == upgraded.state
    wait_for_leader(operators)
    wait_until_observed(stream, 93)
    assert state_of(stream) == upgraded.state
