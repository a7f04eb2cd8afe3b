"""Diagnoses of partitions that are not ready, at the end of a pass."""

from itertools import pairwise

import pytest

from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import EVENTS, Resource
from tests.unit.operator.scene import KEY, Scene


def test_events_are_read_once_in_half_a_minute_of_one_object_after_another(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.kafka.partitions = 6
    scene.look()  # its StatefulSets have no pods yet
    find, reads = scene.cluster.find, []

    def counting(
        resource: Resource, namespace: str | None, **selectors: str | None
    ) -> list[Object]:
        if resource is EVENTS:
            reads.append((scene.clock.now, selectors["fields"]))
        return find(resource, namespace, **selectors)

    monkeypatch.setattr(scene.cluster, "find", counting)
    for _ in range(240):
        scene.clock.now += 1.0
        scene.reconciler.reconcile(KEY)

    times = [at for at, _ in reads]
    assert len(times) == 8
    assert all(later - earlier == 30.0 for earlier, later in pairwise(times))
    of_four = [about for _, about in reads[:4]]
    assert len(set(of_four)) == 4
    assert [about for _, about in reads[4:]] == of_four, "in turn"
