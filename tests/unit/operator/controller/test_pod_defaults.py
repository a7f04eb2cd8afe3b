"""Pods that run keep their defaults when another version of the operator has others."""

from typing import Any

import pytest

from dedupe_operator.controller import pod_defaults
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources.pod_parts import PodDefaults
from tests.unit.operator.scene import Scene

EARLIER = "256Mi"
NEW = "1321Mi"
NAMES = ["orders-0", "orders-1"]


def memory(scene: Scene) -> list[str]:
    """What the workers request, by partition."""
    pods = [one["spec"]["template"]["spec"] for one in scene.stateful_sets()]
    return [pod["containers"][0]["resources"]["requests"]["memory"] for pod in pods]


def pods(scene: Scene) -> list[str]:
    return [str(scene.cluster.one("Pod", f"{name}-0")["metadata"]["uid"]) for name in NAMES]


def use_mirror(live: Object) -> None:
    """As a webhook does that replaces the registry of images."""
    if live["kind"] == "StatefulSet":
        live["spec"]["template"]["spec"]["containers"][0]["image"] = "mirror.example/worker:1"


@pytest.fixture(name="earlier")
def _earlier(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A stream that an earlier version has started, and an operator of this version."""

    def build(builder: Any, inputs: Any, _: Object | None) -> Object | None:  # noqa: ANN401 # any builder
        return pod_defaults._built(builder, inputs, PodDefaults(memory_by_window=False))  # noqa: SLF001 # the earlier

    with monkeypatch.context() as patch:
        patch.setattr(pod_defaults, "build", build)
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
    earlier.cluster.add_stream({"spec.worker.image": "registry.example/worker:2"})
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
