"""Whole looks at a stream whose volumes are made, lost, kept or grown."""

import pytest

from dedupe_operator.controller.reconciler import PROBLEM_RETRY_SECONDS, RESYNC_SECONDS
from dedupe_operator.errors import KubernetesError, LostLeadership
from dedupe_operator.kubernetes.names import Object
from tests.unit.operator.objects import NAMESPACE, STREAM
from tests.unit.operator.scene import Scene


def test_a_new_volume_is_on_record_before_anything_is_made(scene: Scene) -> None:
    scene.look()
    assert scene.cluster.writes[0] == ("apply", "DedupeStream", STREAM)
    assert scene.cluster.writes[1][1] == "ServiceAccount"


def test_an_operator_killed_after_the_record_makes_the_recorded_volume(scene: Scene) -> None:
    scene.cluster.fails["ServiceAccount", "orders-worker"] = KubernetesError("Killed", "here")
    scene.look()
    scene.cluster.fails.clear()
    scene.restart_operator()
    scene.rest()
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-1", "orders-1-1"]
    assert scene.cluster.status["partitions"][0]["restore"]["source"] == "Nothing"


def test_an_operator_killed_after_a_later_record_leaves_the_other_partitions_on_it(
    scene: Scene,
) -> None:
    scene.rest()
    scene.cluster.remove("PersistentVolumeClaim", "orders-0-1")
    scene.cluster.remove("ServiceAccount", "orders-worker")
    scene.cluster.fails["ServiceAccount", "orders-worker"] = LostLeadership("killed")
    with pytest.raises(LostLeadership):
        scene.look()
    first, second = scene.cluster.status["partitions"]
    assert (first["phase"], first["persistentVolumeClaim"]) == ("Provisioning", "orders-0-2")
    assert (second["phase"], second["persistentVolumeClaim"]) == ("Running", "orders-1-1")
    scene.cluster.fails.clear()
    scene.restart_operator()
    scene.rest()
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-2", "orders-1-1"]


def test_a_deleted_stateful_set_is_made_again_on_the_same_volume(scene: Scene) -> None:
    scene.rest()
    scene.cluster.remove("StatefulSet", "orders-1")
    scene.rest()
    assert scene.mounted_claim("orders-1") == "orders-1-1"


def test_suspend_stops_all_workers_and_keeps_their_volumes(scene: Scene) -> None:
    scene.rest()
    scene.cluster.add_stream({"spec.suspend": True})
    scene.look()
    replicas = [one["spec"]["replicas"] for one in scene.stateful_sets()]
    assert replicas == [0, 0]
    scene.cluster.settle()
    assert scene.rest() == RESYNC_SECONDS
    assert scene.cluster.names("Pod") == []
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-1", "orders-1-1"]
    assert scene.cluster.condition("Ready")["reason"] == "Suspended"
    assert {one["phase"] for one in scene.cluster.status["partitions"]} == {"Suspended"}

    scene.cluster.add_stream({"spec.suspend": False})
    scene.look()
    assert [one["spec"]["replicas"] for one in scene.stateful_sets()] == [1, 1]
    scene.cluster.settle()
    assert scene.rest() == RESYNC_SECONDS


def test_a_volume_that_is_refused_keeps_its_name_until_it_can_be_made(scene: Scene) -> None:
    quota = KubernetesError("QuotaExceeded", "exceeded quota: small")
    scene.cluster.fails["PersistentVolumeClaim", "orders-0-1"] = quota
    for _ in range(4):
        scene.look()
        scene.cluster.settle()
    statuses = [write for write in scene.cluster.writes if write[1] == "DedupeStream"]
    assert statuses == []
    scene.cluster.fails.clear()
    scene.rest()
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-1", "orders-1-1"]


@pytest.mark.parametrize("phase", ["Bound", "Pending"])
def test_a_foreign_volume_is_left_alone_however_often_it_is_looked_at(
    scene: Scene, phase: str
) -> None:
    scene.cluster.add_stream({"spec.storage": {"storageClassName": "fast"}})
    spec: Object = {"accessModes": ["ReadWriteOnce"], "storageClassName": "slow"}
    spec["resources"] = {"requests": {"storage": "1Gi"}}
    if phase == "Bound":
        spec["volumeName"] = "pv-1"
    metadata = {"name": "orders-0-1", "namespace": NAMESPACE}
    theirs: Object = {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    scene.cluster.add({"apiVersion": "v1", "status": {"phase": phase}, **theirs})
    before = scene.cluster.get_copy("PersistentVolumeClaim", "orders-0-1")
    for _ in range(4):
        scene.look()
    assert scene.cluster.get_copy("PersistentVolumeClaim", "orders-0-1") == before
    assert scene.cluster.condition("Ready")["reason"] == "NameTaken"


@pytest.mark.parametrize(
    "edited",
    [None, {"dedupestream.io/partition": None}, {"dedupestream.io/partition": "1"}],
    ids=["all labels gone", "no partition", "the partition of another"],
)
def test_an_edited_label_of_our_volume_does_not_make_a_new_one(
    scene: Scene, edited: dict[str, str | None] | None
) -> None:
    scene.rest()
    claim = scene.cluster.one("PersistentVolumeClaim", "orders-0-1")
    before = dict(claim["metadata"]["labels"])
    changed = {} if edited is None else {**before, **edited}
    claim["metadata"]["labels"] = {name: one for name, one in changed.items() if one is not None}
    scene.rest()
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-1", "orders-1-1"]
    assert scene.cluster.one("PersistentVolumeClaim", "orders-0-1")["metadata"]["labels"] == before


def test_a_volume_that_is_deleted_while_it_is_looked_at_is_not_made_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.rest()
    claim = ("PersistentVolumeClaim", "orders-0-1")
    scene.cluster.one(*claim)["metadata"]["labels"].pop("app.kubernetes.io/managed-by")
    apply = scene.cluster.apply

    def apply_late(wanted: Object, *, subresource: str | None = None) -> Object:
        if (wanted["kind"], wanted["metadata"]["name"]) == claim and claim in scene.cluster.objects:
            scene.cluster.remove(*claim)
        return apply(wanted, subresource=subresource)

    monkeypatch.setattr(scene.cluster, "apply", apply_late)
    scene.look()
    assert claim not in scene.cluster.objects
    assert scene.cluster.condition("Degraded")["reason"] == "AsExpected"
    scene.rest()
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-2", "orders-1-1"]


def test_a_volume_that_was_deleted_is_followed_by_another(scene: Scene) -> None:
    scene.rest()
    scene.cluster.remove("PersistentVolumeClaim", "orders-0-1")
    scene.rest()
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-2", "orders-1-1"]
    first = scene.cluster.status["partitions"][0]
    assert first["persistentVolumeClaim"] == "orders-0-2"
    assert first["restore"]["source"] == "OutputTopic"
    assert "StoreFromOutputTopic" in scene.cluster.told


def test_a_volume_that_is_lost_after_its_pod_is_not_taken_for_one_to_come(scene: Scene) -> None:
    scene.rest()
    scene.cluster.remove("Pod", "orders-0-0")
    scene.look()
    assert scene.cluster.status["partitions"][0]["phase"] == "Starting"
    scene.cluster.remove("PersistentVolumeClaim", "orders-0-1")
    scene.rest()
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-2", "orders-1-1"]
    assert scene.cluster.status["partitions"][0]["restore"]["source"] == "OutputTopic"


def test_a_namesake_takes_over_the_volumes_that_were_kept(scene: Scene) -> None:
    scene.rest()
    for kind, name in list(scene.cluster.objects):
        if kind != "PersistentVolumeClaim":
            scene.cluster.remove(kind, name)
    assert scene.look() is None
    scene.cluster.add_stream({"metadata.uid": "another-uid"})
    scene.rest()
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-1", "orders-1-1"]
    assert {one["restore"]["source"] for one in scene.cluster.status["partitions"]} == {"Volume"}


def test_volumes_grow_with_the_spec(scene: Scene) -> None:
    scene.cluster.add({"kind": "StorageClass", "metadata": {"name": "default"}})
    scene.rest()
    scene.cluster.add_stream({"spec.storage": {"size": "40Gi"}})
    assert scene.rest() == PROBLEM_RETRY_SECONDS
    assert scene.cluster.condition("Degraded")["reason"] == "VolumeExpansionNotAllowed"
    assert "Partitions 0-1:" in scene.cluster.condition("Degraded")["message"]
    assert scene.claimed_size() == "20Gi"
    scene.cluster.one("StorageClass", "default")["allowVolumeExpansion"] = True
    assert scene.rest() == RESYNC_SECONDS
    assert scene.claimed_size() == "40Gi"
    assert scene.cluster.condition("Degraded")["status"] == "False"


def test_a_volume_larger_than_the_spec_is_not_made_smaller(scene: Scene) -> None:
    scene.rest()
    claim = scene.cluster.one("PersistentVolumeClaim", "orders-0-1")
    claim["spec"]["resources"]["requests"]["storage"] = "40Gi"
    scene.rest()
    assert scene.claimed_size() == "40Gi"


def test_a_file_system_that_waits_for_a_restart_gets_one_at_a_time(scene: Scene) -> None:
    scene.rest()
    for name in ("orders-0-1", "orders-1-1"):
        wait_for_restart(scene, name)
    scene.look()
    assert ("delete", "Pod", "orders-0-0") in scene.cluster.writes
    assert ("delete", "Pod", "orders-1-0") not in scene.cluster.writes
    assert "RestartedToExpandVolume" in scene.cluster.told


def test_a_worker_that_is_not_ready_is_restarted_for_more_space_whatever_else_is_going_on(
    scene: Scene,
) -> None:
    """It may be the lack of space that keeps it, and so all that waits for it."""
    scene.rest()
    wait_for_restart(scene, "orders-1-1")
    for name in ("orders-0-0", "orders-1-0"):
        pod = scene.cluster.one("Pod", name)
        pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    scene.look()
    assert ("delete", "Pod", "orders-1-0") in scene.cluster.writes
    scene.cluster.settle()
    wait_for_restart(scene, "orders-1-1")  # until its node has got to it
    follower = scene.cluster.one("Pod", "orders-1-0")
    follower["metadata"]["creationTimestamp"] = "2026-11-01T11:30:01Z"
    follower["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    scene.look()
    assert ("delete", "Pod", "orders-1-0") not in scene.cluster.writes


def wait_for_restart(scene: Scene, claim: str) -> None:
    """A volume has grown, and its file system has not."""
    waits = {"type": "FileSystemResizePending", "status": "True"}
    waits["lastTransitionTime"] = "2026-11-01T11:30:00Z"
    status = {"phase": "Bound", "conditions": [waits]}
    scene.cluster.one("PersistentVolumeClaim", claim)["status"] = status


def test_a_pending_volume_of_the_wrong_class_is_replaced_when_the_spec_is_mended(
    scene: Scene,
) -> None:
    scene.cluster.add_stream({"spec.storage": {"storageClassName": "no-such"}})
    scene.look()
    for name in ("orders-0-1", "orders-1-1"):
        scene.cluster.one("PersistentVolumeClaim", name)["status"] = {"phase": "Pending"}
    scene.look()
    scene.cluster.add_stream({"spec.storage": {"storageClassName": "gp3"}})
    scene.rest()
    chosen = [one["persistentVolumeClaim"] for one in scene.cluster.status["partitions"]]
    assert chosen == ["orders-0-2", "orders-1-2"]
    assert scene.mounted_claim("orders-0") == "orders-0-2"
    assert scene.cluster.condition("Ready")["status"] == "True"
