"""The rights that the chart gives, in each of its modes, are those of the table in the documentation."""

import pytest

from tests.component.chart.rendering import NAMESPACE, Object, of_kind, render, variables
from tests.component.chart.rights import documented, granted

pytestmark = pytest.mark.proof
OPERATOR = "dedupestream-operator"
CLUSTER = f"{OPERATOR}-cluster"


def arguments(objects: list[Object]) -> list[str]:
    """The arguments of the operator's container."""
    (deployment,) = of_kind(objects, "Deployment").values()
    found: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def test_the_table_has_each_right_and_no_other() -> None:
    objects = render({})
    roles = of_kind(objects, "ClusterRole")
    assert granted(roles[OPERATOR]) == documented("streams")
    assert granted(roles[CLUSTER]) == documented("cluster", "failover")
    (lease,) = of_kind(objects, "Role").values()
    assert lease["metadata"]["namespace"] == NAMESPACE
    assert granted(lease) == documented("release")
    create, use = lease["rules"]
    assert create["verbs"] == ["create"]
    assert use["resourceNames"] == [OPERATOR]
    assert roles.keys() == {OPERATOR, CLUSTER, "dedupestream-view", "dedupestream-edit"}
    assert of_kind(objects, "ClusterRoleBinding").keys() == {OPERATOR, CLUSTER}


def test_only_for_ebs_may_the_operator_make_volumes() -> None:
    roles = of_kind(render({"snapshots": {"ebs": {"enabled": True}}}), "ClusterRole")
    assert granted(roles[CLUSTER]) == documented("cluster", "failover", "EBS")


def test_without_failover_the_operator_may_not_do_it_and_knows() -> None:
    objects = render({"failover": {"enabled": False}})
    assert granted(of_kind(objects, "ClusterRole")[CLUSTER]) == documented("cluster")
    assert variables(objects)["DEDUPE_OPERATOR_FAILOVER"] == "false"
    assert "DEDUPE_OPERATOR_FAILOVER" not in variables(render({}))


@pytest.mark.parametrize("watched", [[], ["shop", "bank"]])
def test_without_cluster_scope_all_rights_are_roles(watched: list[str]) -> None:
    objects = render({"rbac": {"clusterScope": False}, "watch": {"namespaces": watched}})
    namespaces = watched or [NAMESPACE]
    assert not {"ClusterRole", "ClusterRoleBinding"} & {each["kind"] for each in objects}
    roles = [each for each in objects if each["kind"] == "Role"]
    of_streams = [each for each in roles if each["metadata"]["name"] == OPERATOR]
    assert [each["metadata"]["namespace"] for each in of_streams] == namespaces
    assert all(granted(each) == documented("streams") for each in of_streams)
    assert len(roles) == len(of_streams) + 1
    found = variables(objects)
    assert found["DEDUPE_OPERATOR_CLUSTER_SCOPE"] == "false"
    assert found["DEDUPE_OPERATOR_FAILOVER"] == "false"
    assert [f"--namespace={name}" for name in namespaces] == [
        one for one in arguments(objects) if one.startswith("--namespace")
    ]


def test_watched_namespaces_are_the_only_ones_the_operator_may_touch() -> None:
    objects = render({"watch": {"namespaces": ["shop", "bank"]}})
    assert of_kind(objects, "ClusterRoleBinding").keys() == {CLUSTER}
    bound = {
        each["metadata"]["namespace"]
        for each in objects
        if each["kind"] == "RoleBinding" and each["roleRef"]["name"] == OPERATOR
    }
    assert bound == {"shop", "bank"}
    assert [one for one in arguments(objects) if one.startswith("--namespace")] == [
        "--namespace=shop",
        "--namespace=bank",
    ]


def test_users_of_a_namespace_may_use_its_streams_as_their_role_says() -> None:
    roles = of_kind(render({}), "ClusterRole")
    aggregate = "rbac.authorization.k8s.io/aggregate-to-"
    view, edit = roles["dedupestream-view"], roles["dedupestream-edit"]
    assert {f"{aggregate}{role}" for role in ("view", "edit", "admin")} <= view["metadata"][
        "labels"
    ].keys()
    assert f"{aggregate}view" not in edit["metadata"]["labels"]
    for kind in ("dedupestreams", "dedupesnapshots"):
        seen = {("dedupestream.io", kind): {"get", "list", "watch"}}
        status = {("dedupestream.io", f"{kind}/status"): {"get"}}
        assert (seen | status).items() <= granted(view).items()
        changes = {"create", "update", "patch", "delete", "deletecollection"}
        assert granted(edit)["dedupestream.io", kind] == changes
    # The operator alone writes them.
    assert granted(view)["dedupestream.io", "dedupestreampartitions"] == {"get", "list", "watch"}
    assert len(granted(view)) == 5
    assert len(granted(edit)) == 2
    assert not of_kind(render({"userRoles": {"create": False}}), "ClusterRole").keys() & {
        "dedupestream-view",
        "dedupestream-edit",
    }
