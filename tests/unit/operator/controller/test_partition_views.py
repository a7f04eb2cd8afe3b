"""Diagnoses of partitions that are not ready, at the end of a pass."""

import pytest

from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import EVENTS, Resource
from tests.unit.operator.scene import Scene


def test_a_pass_reads_the_events_of_four_partitions_only(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.kafka.partitions = 6
    scene.look()  # its StatefulSets have no pods yet
    find, reads = scene.cluster.find, []

    def counting(
        resource: Resource, namespace: str | None, **selectors: str | None
    ) -> list[Object]:
        reads.append(resource)
        return find(resource, namespace, **selectors)

    monkeypatch.setattr(scene.cluster, "find", counting)
    scene.look()

    assert reads.count(EVENTS) == 4
