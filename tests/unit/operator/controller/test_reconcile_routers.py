"""Whole looks at a stream with routers, against a cluster in memory."""

from datetime import timedelta
from typing import Any

import pytest

from dedupe_crds.status.router import RouterPhase
from dedupe_operator.controller.reconciler import PROBLEM_RETRY_SECONDS, RESYNC_SECONDS
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.names import Object
from tests.unit.operator.objects import NODE, NOW, node, router_status
from tests.unit.operator.scene import Scene

CHILDREN = [
    ("PodDisruptionBudget", "orders-router"),
    ("Service", "orders-router"),
    ("StatefulSet", "orders-router"),
]


def routed(replicas: int = 2, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    repartition = {"partitions": 3, "routers": {"replicas": replicas}}
    return {"spec.repartition": repartition, **changes}


@pytest.fixture
def running(scene: Scene) -> Scene:
    scene.cluster.add_stream(routed())
    scene.rest()
    return scene


def routers(scene: Scene) -> Object:
    found: Object = scene.cluster.status["routers"]
    return found


def set_ready(scene: Scene, router: int, *, ready: bool) -> None:
    pod = scene.cluster.one("Pod", f"orders-router-{router}")
    pod["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]


def test_it_has_the_partitions_of_its_spec_and_its_routers(running: Scene) -> None:
    names = running.cluster.names("StatefulSet")
    assert names == ["orders-0", "orders-1", "orders-2", "orders-router"]
    assert running.cluster.status["partitionsReady"] == "3/3"
    found = routers(running)
    assert (found["replicas"], found["ready"]) == (2, 2)
    assert found["inputs"] == [{"topic": "orders", "lagMessages": 0}]
    assert running.cluster.condition("Ready")["status"] == "True"
    assert running.look() == RESYNC_SECONDS
    assert running.cluster.writes == []


def test_a_stream_without_has_none_in_its_status(scene: Scene) -> None:
    scene.rest()
    assert "routers" not in scene.cluster.status


@pytest.mark.parametrize(("kind", "name"), CHILDREN)
def test_a_deleted_child_is_made_again(running: Scene, kind: str, name: str) -> None:
    running.cluster.remove(kind, name)
    running.rest()
    assert running.cluster.one(kind, name)


def test_an_edited_number_of_routers_is_mended(running: Scene) -> None:
    running.cluster.one("StatefulSet", "orders-router")["spec"]["replicas"] = 7
    running.look()
    assert running.cluster.writes[0] == ("apply", "StatefulSet", "orders-router")
    assert running.cluster.one("StatefulSet", "orders-router")["spec"]["replicas"] == 2


def test_scaling_restarts_neither_workers_nor_the_routers_that_stay(running: Scene) -> None:
    uids = {
        name: running.cluster.one("Pod", name)["metadata"]["uid"]
        for name in running.cluster.names("Pod")
    }
    running.cluster.add_stream(routed(1))
    running.rest()
    assert "orders-router-1" not in running.cluster.names("Pod")
    for name in running.cluster.names("Pod"):
        assert running.cluster.one("Pod", name)["metadata"]["uid"] == uids[name]
    assert routers(running)["replicas"] == 1


def test_a_suspended_stream_has_no_router_and_nothing_is_wrong_with_that(running: Scene) -> None:
    running.cluster.add_stream(routed(**{"spec.suspend": True}))
    running.rest()
    assert running.cluster.names("Pod") == []
    assert (routers(running)["replicas"], routers(running)["ready"]) == (0, 0)
    assert running.cluster.condition("Ready")["reason"] == "Suspended"
    assert running.cluster.condition("Degraded")["status"] == "False"


def test_one_router_that_is_not_ready_is_a_problem_and_the_stream_is_ready(running: Scene) -> None:
    set_ready(running, 1, ready=False)
    running.workers.routers_say[1] = router_status(
        1, phase=RouterPhase.FAILED, reason="NotAuthorized", message="an ACL is missing"
    )
    assert running.look() == PROBLEM_RETRY_SECONDS
    assert running.cluster.condition("Ready")["status"] == "True"
    degraded = running.cluster.condition("Degraded")
    assert degraded["reason"] == "NotAuthorized"
    assert degraded["message"] == "Router 1: an ACL is missing."
    assert running.cluster.condition("Progressing")["message"] == "Waiting for 1 router."


def test_without_a_ready_router_the_stream_is_not_ready(running: Scene) -> None:
    for router in range(2):
        set_ready(running, router, ready=False)
        running.workers.routers_say[router] = router_status(
            router, phase=RouterPhase.PAUSED, reason="RepartitionTopicFull", message="it is full"
        )
    running.look()
    ready = running.cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "RoutersNotReady")
    assert ready["message"] == (
        "3 of 3 partitions are ready. No router is ready: RepartitionTopicFull: routers 0-1: it is full."
    )
    assert "RepartitionTopicFull" in running.cluster.told


def test_routers_that_start_are_no_problem(scene: Scene) -> None:
    scene.cluster.add_stream(routed())
    scene.look()
    scene.cluster.settle()
    for router in range(2):
        set_ready(scene, router, ready=False)
        scene.workers.routers_say[router] = router_status(router, phase=RouterPhase.STARTING)
    scene.look()
    assert scene.cluster.condition("Ready")["message"].endswith("No router is ready.")
    progressing = scene.cluster.condition("Progressing")
    assert (progressing["reason"], progressing["message"]) == (
        "Starting",
        "Waiting for 2 routers to be ready.",
    )
    assert scene.cluster.condition("Degraded")["status"] == "False"
    assert "RoutersNotReady" not in scene.cluster.told


def test_a_warning_of_a_router_shows_although_it_is_ready(running: Scene) -> None:
    warning = {"InputTopicMissing": "b: no such topic"}
    running.workers.routers_say[0] = router_status(0, warnings=warning)
    running.look()
    assert running.cluster.condition("Degraded")["message"] == "Router 0: b: no such topic."
    assert routers(running)["reason"] == "InputTopicMissing"


def test_an_image_that_does_not_exist_is_named_and_workers_go_on(running: Scene) -> None:
    running.cluster.bad_images.add("registry.example/worker:2")
    running.cluster.add_stream(routed(2, **{"spec.worker.image": "registry.example/worker:2"}))
    running.look()
    running.cluster.settle()
    running.look()
    degraded = running.cluster.condition("Degraded")
    assert degraded["reason"] == "ImagePullFailed"
    assert "Routers 0-1: image registry.example/worker:2" in degraded["message"]


def test_a_name_that_is_taken_stops_the_routers_only(scene: Scene) -> None:
    scene.cluster.add_stream(routed())
    scene.cluster.fails["Service", "orders-router"] = KubernetesError("NameTaken", "it is taken")
    for _ in range(3):
        scene.look()
        scene.cluster.settle()
    assert scene.cluster.names("StatefulSet") == ["orders-0", "orders-1", "orders-2"]
    assert scene.cluster.condition("Degraded")["reason"] == "NameTaken"
    assert scene.cluster.condition("Ready")["reason"] == "RoutersNotReady"


def test_figures_alone_are_written_rarely(running: Scene) -> None:
    running.workers.routers_say[0] = router_status(0, lags={"orders": 500}, held=(70, 7_000))
    running.look()
    assert running.cluster.writes == [], "they were written less than a minute ago"
    running.workers.routers_say[0] = router_status(0, lags={"orders": 900, "more": 1})
    running.look()
    assert running.cluster.writes == [("apply", "DedupeStream", "orders")]


def test_a_router_on_a_node_that_is_out_is_moved(running: Scene) -> None:
    running.cluster.add(node("node-2"))
    pod = running.cluster.one("Pod", "orders-router-1")
    pod["spec"]["nodeName"] = "node-2"
    set_ready(running, 1, ready=False)
    since = NOW - timedelta(days=30)
    running.cluster.add(node("node-2", status="Unknown", since=since))
    running.look()
    assert ("force", "Pod", "orders-router-1") in running.cluster.writes
    assert [write for write in running.cluster.writes if write[0] == "force"] == [
        ("force", "Pod", "orders-router-1")
    ]
    assert "PodForceDeleted" in running.cluster.told
    running.cluster.settle()
    running.rest()
    assert routers(running)["ready"] == 2
    assert running.cluster.one("Pod", "orders-router-1")["spec"]["nodeName"] == NODE
