"""Pods that run keep their defaults when a new version, or a cluster that changed, has other ones."""

from typing import Any

import pytest

from dedupe_operator.controller import pod_defaults
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import NODES, Resource
from dedupe_operator.resources.pod_parts import PodDefaults
from tests.unit.operator.objects import node
from tests.unit.operator.scene import Scene

EARLIER = "256Mi"
NEW = "1321Mi"
NAMES = ["orders-0", "orders-1"]
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
ANOTHER_IMAGE = {"spec.worker.image": "registry.example/worker:2"}
ROUTED = {"spec.repartition": {"partitions": 2, "routers": {"replicas": 2}}}


def memory(scene: Scene) -> list[str]:
    """Return the memory that the workers request, by partition."""
    pods = [one["spec"]["template"]["spec"] for one in scene.stateful_sets()]
    return [pod["containers"][0]["resources"]["requests"]["memory"] for pod in pods]


def spread(scene: Scene, name: str = "orders-0") -> list[str]:
    """Return the topologies that the pods of a StatefulSet are spread over."""
    pod = scene.cluster.one("StatefulSet", name)["spec"]["template"]["spec"]
    return [one["topologyKey"] for one in pod["topologySpreadConstraints"]]


def pods(scene: Scene) -> list[str]:
    return [str(scene.cluster.one("Pod", f"{name}-0")["metadata"]["uid"]) for name in NAMES]


def use_mirror(live: Object) -> None:
    """As a webhook does that replaces the registry of images."""
    if live["kind"] == "StatefulSet":
        live["spec"]["template"]["spec"]["containers"][0]["image"] = "mirror.example/worker:1"


def set_zones(scene: Scene, *zones: str | None) -> None:
    """Let the cluster have one node for each of these."""
    for name in scene.cluster.names("Node"):
        scene.cluster.remove("Node", name)
    for number, zone in enumerate(zones, start=1):
        made = node(f"node-{number}")
        made["metadata"]["labels"] = {ZONE: zone} if zone else {}
        scene.cluster.add(made)
    scene.restart_operator()


@pytest.fixture(name="earlier")
def _earlier(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A stream that an earlier version has started, and an operator of this version."""

    def build(_self: object, builder: Any, inputs: Any, *_: object) -> Object | None:  # noqa: ANN401 # any builder
        return pod_defaults._built(builder, inputs, PodDefaults(memory_by_window=False))  # noqa: SLF001 # the earlier

    with monkeypatch.context() as patch:
        patch.setattr(pod_defaults.DefaultsChooser, "build", build)
        scene.rest()
    assert memory(scene) == [EARLIER, EARLIER]
    scene.restart_operator()
    return scene


def test_a_new_stream_has_the_new_defaults(scene: Scene) -> None:
    scene.rest()
    assert memory(scene) == [NEW, NEW]


def test_a_new_default_alone_restarts_nothing(earlier: Scene) -> None:
    before = pods(earlier)
    earlier.rest()
    assert memory(earlier) == [EARLIER, EARLIER]
    assert pods(earlier) == before


def test_a_change_of_the_pods_brings_the_new_defaults(earlier: Scene) -> None:
    earlier.cluster.add_stream(ANOTHER_IMAGE)
    earlier.rest()
    assert memory(earlier) == [NEW, NEW]


def test_a_repair_keeps_the_defaults(earlier: Scene) -> None:
    earlier.cluster.one("StatefulSet", "orders-0")["spec"]["revisionHistoryLimit"] = 7
    earlier.rest()
    assert earlier.cluster.one("StatefulSet", "orders-0")["spec"]["revisionHistoryLimit"] == 2
    assert memory(earlier) == [EARLIER, EARLIER]


def test_what_a_webhook_changes_keeps_the_defaults(earlier: Scene) -> None:
    for name in NAMES:
        use_mirror(earlier.cluster.one("StatefulSet", name))
    earlier.cluster.webhook = use_mirror
    earlier.look()  # it waits for its turn: its images look like those of another version
    earlier.rest()
    assert memory(earlier) == [EARLIER, EARLIER]


def test_a_worker_that_is_created_again_has_the_new_defaults(earlier: Scene) -> None:
    del earlier.cluster.objects["StatefulSet", "orders-1"]
    earlier.rest()
    assert memory(earlier) == [EARLIER, NEW]


@pytest.mark.parametrize(
    ("zones", "wanted"),
    [
        (["a", "b"], [ZONE, HOSTNAME]),
        (["a", "a"], [HOSTNAME]),
        (["a", "b", None], [HOSTNAME]),
        ([None, None], [HOSTNAME]),
        ([], [HOSTNAME]),
    ],
    ids=str,
)
def test_pods_are_spread_over_zones_where_each_node_is_in_one_of_several(
    scene: Scene, zones: list[str | None], wanted: list[str]
) -> None:
    set_zones(scene, *zones)
    scene.cluster.add_stream(ROUTED)
    scene.rest()
    assert [spread(scene, name) for name in (*NAMES, "orders-router")] == [wanted] * 3


def test_a_zone_that_is_added_restarts_nothing_and_counts_from_the_next_change_on(
    scene: Scene,
) -> None:
    scene.rest()
    before = pods(scene)
    set_zones(scene, "a", "b")
    scene.rest()
    assert (spread(scene), pods(scene)) == ([HOSTNAME], before)
    scene.cluster.add_stream(ANOTHER_IMAGE)
    scene.rest()
    assert spread(scene) == [ZONE, HOSTNAME]
    set_zones(scene, "a")
    scene.rest()
    assert spread(scene) == [ZONE, HOSTNAME]


def test_an_operator_that_may_not_read_nodes_knows_of_no_zones(scene: Scene) -> None:
    set_zones(scene, "a", "b")
    scene.restart_operator(failover=False)
    scene.rest()
    assert spread(scene) == [HOSTNAME]


@pytest.mark.parametrize("zones", [(), ("a", "b")], ids=str)
def test_at_rest_each_pod_template_is_built_once_and_no_node_is_read(
    scene: Scene, zones: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_zones(scene, *zones)
    scene.cluster.add_stream(ROUTED)
    scene.rest()
    scene.look()
    built, build, find = [], pod_defaults._built, scene.cluster.find  # noqa: SLF001 # counted

    def counting(*given: Any) -> Object | None:  # noqa: ANN401 # any builder
        built.append(build(*given))
        return built[-1]

    def find_no_node(resource: Resource, *given: Any, **selectors: Any) -> list[Object]:  # noqa: ANN401 # as the API's
        assert resource is not NODES
        return find(resource, *given, **selectors)

    monkeypatch.setattr(pod_defaults, "_built", counting)
    monkeypatch.setattr(scene.cluster, "find", find_no_node)
    scene.look()
    assert [each["metadata"]["name"] for each in built if each] == ["orders-router", *NAMES]
