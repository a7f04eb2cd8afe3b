"""Volumes whose class is gone, and volumes that are full: what works goes on, and the rest is told and mended."""

import json
import time
from collections.abc import Iterator

import pytest

from dedupe_crds.annotations import RECONCILE
from dedupe_crds.status.stream import RestoreSource
from tests.cluster.environment import Environment
from tests.e2e.support.faults import Before, fill_volume, pod_of
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.scene import Scene, scene
from tests.e2e.support.stream import KIND
from tests.e2e.support.troubles import copy_default_storage_class, remove_cluster_objects
from tests.e2e.support.volumes import claim_of, lose_volume
from tests.faults.seed import SEED


@pytest.fixture
def place(
    release: Environment, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("volumes")
    with scene(release, "failover-volumes", directory, request) as made:
        yield made
        remove_cluster_objects(made)


@pytest.mark.matrix  # tests/unit/operator, and the lost volumes of test_restore.py
def test_without_its_storage_class_a_stream_goes_on_and_a_new_volume_waits_for_it(
    place: Scene,
) -> None:
    name = place.namespace
    copy_default_storage_class(place, name)
    stream = place.stream("classless", partitions=2, storage={"storageClassName": name})
    stream.apply()
    stream.wait_until_ready()
    before = Before.of(stream)

    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
        remove_cluster_objects(place)
        stream.kubectl("delete", "pod", stream.pod_name(0), "--wait=false")
        before.wait_until_replaced(0)
        before.assert_same_volumes()
        load.begin("the class is gone")

        lost = lose_volume(stream, 1)
        told = stream.wait_for_condition("Degraded", reason="StorageClassMissing")
        assert f"StorageClass {name}" in told.message
        stream.wait_until(
            lambda: [one.ready for one in stream.status().partitions] == [True, False],
            "the other partition is ready",
        )
        load.begin("a volume is lost, too")
        kept = pod_of(stream, 0)["metadata"]["uid"]

        began = time.monotonic()
        copy_default_storage_class(place, name)
        stream.wait_until_ready()
        print(f"storage class back: ready {time.monotonic() - began:.1f} s after")
        load.begin("the class is back")
        load.wait_until_filled()
    assert pod_of(stream, 0)["metadata"]["uid"] == kept, "the other partition was let alone"
    assert claim_of(stream, 0) == before.identities[0].claim
    assert claim_of(stream, 1) != lost
    restore = stream.status().partitions[1].restore
    assert restore is not None
    assert restore.source is RestoreSource.OUTPUT_TOPIC
    load.judged()


@pytest.mark.matrix  # tests/faults/test_disk_full.py
def test_a_full_volume_is_told_of_and_growing_it_is_all_it_takes(place: Scene) -> None:
    stream = place.stream("full", partitions=2)
    stream.apply()
    stream.wait_until_ready()
    before = Before.of(stream)

    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
        fill_volume(stream.kubectl, stream.pod_name(0))
        ask = {"request": "now", "partitions": [0]}  # which begins a session, and so writes
        stream.kubectl("annotate", KIND, stream.name, f"{RECONCILE}={json.dumps(ask)}")
        told = stream.wait_for_condition("Degraded", reason="DiskFull")
        assert "spec.storage.size" in told.message
        stream.wait_until(lambda: stream.status().partitions[1].ready, "the other one is ready")
        load.begin("a volume is full")

        began = time.monotonic()
        stream.patch(storage={"size": "256Mi"})
        stream.wait_until_ready()
        print(f"volume full: ready {time.monotonic() - began:.1f} s after it was to grow")
        load.begin("it has grown")
        load.wait_until_filled()
    stream.wait_until_rolled_out()
    before.assert_same_volumes()
    stream.wait_for_events("DiskFull")
    assert "DiskFull" in {one["reason"] for one in stream.events() if one["type"] == "Warning"}
    load.judged()
