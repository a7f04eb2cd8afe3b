"""Diagnoses of partitions that are not ready, at the end of a pass."""

from itertools import pairwise
from typing import Any

import pytest

from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import EVENTS, Resource
from tests.unit.operator.objects import NAMESPACE
from tests.unit.operator.scene import KEY, Scene


def test_events_are_read_once_in_half_a_minute_for_all_partitions(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.kafka.partitions = 6
    scene.look()  # its StatefulSets have no pods yet
    find, reads = scene.cluster.find, []
    for name in scene.cluster.names("StatefulSet"):
        about = {"uid": scene.cluster.one("StatefulSet", name)["metadata"]["uid"]}
        event = {"reason": "FailedCreate", "message": f"exceeded quota: {name}", "type": "Warning"}
        metadata = {"name": f"{name}.1", "namespace": NAMESPACE}
        scene.cluster.add({"kind": "Event", "metadata": metadata, "involvedObject": about, **event})

    def counting(resource: Resource, namespace: str | None, **selectors: Any) -> list[Object]:  # noqa: ANN401 (as the API's)
        if resource is EVENTS:
            reads.append(scene.clock.now)
        return find(resource, namespace, **selectors)

    monkeypatch.setattr(scene.cluster, "find", counting)
    for _ in range(240):
        scene.clock.now += 1.0
        scene.reconciler.reconcile(KEY)

    assert len(reads) == 8
    assert all(later - earlier == 30.0 for earlier, later in pairwise(reads))
    message = scene.cluster.condition("Degraded")["message"]
    assert all(f"quota: orders-{number}" in message for number in range(4)), message
