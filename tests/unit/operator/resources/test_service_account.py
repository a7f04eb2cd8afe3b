"""The account of the workers' pods, with the role that a cloud gives it."""

from typing import Any

from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import pod_template, service_account
from tests.unit.operator.objects import RELEASE, stream
from tests.unit.operator.scene import Scene

ROLE = {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/dedupe-orders"}
WITH_ROLE = {"spec.worker": {"serviceAccount": {"annotations": ROLE}}}


def template(changes: dict[str, Any] | None = None) -> Object:
    return pod_template.build(
        stream(changes), 0, claim="orders-0-1", release=RELEASE, secrets_hash="abc"
    )


def test_it_has_the_annotations_of_the_spec() -> None:
    assert service_account.build(stream(WITH_ROLE))["metadata"]["annotations"] == ROLE


def test_without_any_account_and_pods_are_as_before() -> None:
    assert "annotations" not in service_account.build(stream())["metadata"]
    assert template({"spec.worker": {"serviceAccount": {}}}) == template()


def test_a_change_restarts_the_workers_because_a_pod_gets_its_role_at_its_start() -> None:
    other = {"spec.worker": {"serviceAccount": {"annotations": {**ROLE, "another": "one"}}}}
    built = (template(), template(WITH_ROLE), template(other))
    without, one, another = (each["metadata"]["annotations"] for each in built)
    assert without != one != another


def test_an_account_gets_and_loses_its_role_and_keeps_what_others_have_set(scene: Scene) -> None:
    scene.rest()
    account = ("ServiceAccount", "orders-worker")
    scene.cluster.one(*account)["metadata"]["annotations"]["theirs"] = "stays"
    scene.cluster.add_stream(WITH_ROLE)
    scene.rest()
    found = scene.cluster.one(*account)["metadata"]["annotations"]
    assert ROLE.items() | {("theirs", "stays")} <= found.items()
    scene.cluster.add_stream()
    scene.rest()
    found = scene.cluster.one(*account)["metadata"]["annotations"]
    assert ("theirs", "stays") in found.items()
    assert not ROLE.keys() & found.keys()
