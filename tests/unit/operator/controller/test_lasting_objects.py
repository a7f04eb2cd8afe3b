"""Objects that outlive their stream: no GitOps tool takes them for its own, and none goes with the stream."""

from copy import deepcopy
from datetime import timedelta
from typing import Final

import pytest

from dedupe_operator.decide.drift import with_wanted_hash
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.names import Object, partition_labels, stream_labels
from dedupe_operator.kubernetes.resources import PERSISTENT_VOLUMES, Resource
from tests.unit.operator import objects
from tests.unit.operator.objects import NAMESPACE, NOW, STREAM
from tests.unit.operator.scene import Scene

CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "orders-0-1-0123456789ab"
DELETE: Final = {"spec.storage": {"reclaimPolicy": "Delete"}}
SCHEDULE: Final = {"spec.snapshots": {"provider": "CSI", "schedule": "*/15 * * * *"}}


def assert_kept_from_pruning(found: Object) -> None:
    """Argo CD tracks by a label below app.kubernetes.io; the annotations are those of its and Flux's manuals."""
    metadata = found["metadata"]
    assert "app.kubernetes.io/instance" not in metadata["labels"]
    assert metadata["labels"]["dedupestream.io/stream"] == STREAM
    annotations = metadata["annotations"]
    assert annotations["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false"
    assert annotations["argocd.argoproj.io/compare-options"] == "IgnoreExtraneous"
    assert annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled"


def pass_time(monkeypatch: pytest.MonkeyPatch, scene: Scene, by: timedelta) -> None:
    scene.cluster.now = NOW + by
    monkeypatch.setattr(scene.reconciler, "_now", lambda: NOW + by)


def apply_old_claim(scene: Scene, name: str = "orders-0-1", *, owned: bool = False) -> None:
    """A claim as an earlier version applied it."""
    live = scene.cluster.objects.get((CLAIM, name), objects.claim(name))
    metadata: Object = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": partition_labels(STREAM, 0),
        **({"ownerReferences": [{"kind": "DedupeStream", "uid": objects.UID}]} if owned else {}),
    }
    spec = {key: live["spec"][key] for key in ("accessModes", "resources", "storageClassName")}
    wanted = {"apiVersion": "v1", "kind": CLAIM, "metadata": metadata, "spec": spec}
    scene.cluster.apply(with_wanted_hash(wanted))


def test_claims_are_made_so_that_no_gitops_tool_takes_them_for_its_own(scene: Scene) -> None:
    scene.rest()
    assert_kept_from_pruning(scene.cluster.one(CLAIM, "orders-0-1"))


@pytest.mark.parametrize("said", ["2", "many", "9" * 5000])
def test_a_stream_that_was_deleted_while_it_began_returns_with_all_partitions(
    scene: Scene, said: str
) -> None:
    scene.rest()
    left = scene.cluster.one(CLAIM, "orders-0-1")
    assert left["metadata"]["annotations"]["dedupestream.io/served-partitions"] == "2"
    left["metadata"]["annotations"]["dedupestream.io/served-partitions"] = said
    for kind, name in list(scene.cluster.objects):
        if (kind, name) != (CLAIM, "orders-0-1"):
            scene.cluster.remove(kind, name)
    scene.restart_operator()
    scene.cluster.add_stream()
    scene.rest()
    # Without the number only the partition with a claim is known to have had a worker.
    served = ["orders-0", "orders-1"] if said == "2" else ["orders-0"]
    assert scene.cluster.names("StatefulSet") == served
    assert scene.cluster.condition("InputPartitionsAdded")["status"] == str(said != "2")


def test_scheduled_snapshots_and_their_copies_are_made_so_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.cluster.add_stream(SCHEDULE)
    pass_time(monkeypatch, scene, timedelta())
    scene.rest()
    pass_time(monkeypatch, scene, timedelta(minutes=15))
    scene.rest()
    (name,) = scene.cluster.names("DedupeSnapshot")
    assert_kept_from_pruning(scene.snapshot(name))
    for copy in scene.cluster.names("VolumeSnapshot"):
        assert_kept_from_pruning(scene.cluster.one("VolumeSnapshot", copy))
    assert scene.cluster.names("VolumeSnapshot")


def test_a_claim_of_an_earlier_version_comes_over_without_a_restart(scene: Scene) -> None:
    scene.rest()
    apply_old_claim(scene)
    scene.look()
    assert scene.cluster.writes == [("apply", CLAIM, "orders-0-1")]
    assert_kept_from_pruning(scene.cluster.one(CLAIM, "orders-0-1"))
    scene.look()
    assert scene.cluster.writes == []


def test_so_does_a_claim_that_the_stream_no_longer_uses(scene: Scene) -> None:
    scene.rest()
    apply_old_claim(scene, "orders-0-0")
    scene.look()
    assert scene.cluster.writes == [("patch", CLAIM, "orders-0-0")]
    assert_kept_from_pruning(scene.cluster.one(CLAIM, "orders-0-0"))
    scene.look()
    assert scene.cluster.writes == []


def test_so_does_a_scheduled_snapshot_but_not_one_of_a_user(scene: Scene) -> None:
    scene.cluster.add_stream({"spec.snapshots": {"provider": "CSI", "keep": 5}})
    scene.rest()
    for name, scheduled in (("old", {"dedupestream.io/scheduled": "true"}), ("theirs", {})):
        scene.add_snapshot(name)
        labels = {**stream_labels(STREAM), **scheduled}
        scene.cluster.one("DedupeSnapshot", name)["metadata"]["labels"] = labels
    scene.look()
    assert ("patch", "DedupeSnapshot", "old") in scene.cluster.writes
    assert ("patch", "DedupeSnapshot", "theirs") not in scene.cluster.writes
    assert_kept_from_pruning(scene.snapshot("old"))
    scene.rest()


def restored_from_ebs(scene: Scene, *, bound_to: str | None = None) -> Object:
    """A volume that an earlier version created for a claim."""
    apply_old_claim(scene)
    claim = scene.cluster.one(CLAIM, "orders-0-1")
    claim["spec"]["volumeName"] = VOLUME
    of_claim = {"name": "orders-0-1", "uid": bound_to or claim["metadata"]["uid"]}
    return scene.cluster.add(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": VOLUME, "labels": partition_labels(STREAM, 0)},
            "spec": {"claimRef": {**of_claim, "namespace": NAMESPACE}},
        }
    )


def test_the_volume_of_a_restore_comes_over_before_its_claim(scene: Scene) -> None:
    scene.rest()
    restored_from_ebs(scene)
    scene.look()
    first, second = scene.cluster.writes
    assert (first, second) == (
        ("patch", "PersistentVolume", VOLUME),
        ("apply", CLAIM, "orders-0-1"),
    )
    assert_kept_from_pruning(scene.cluster.one("PersistentVolume", VOLUME))


def test_a_volume_of_another_claim_is_left_alone(scene: Scene) -> None:
    scene.rest()
    before = restored_from_ebs(scene, bound_to="uid-of-a-stranger")
    scene.look()
    assert scene.cluster.writes == [("apply", CLAIM, "orders-0-1")]
    assert scene.cluster.one("PersistentVolume", VOLUME) == before


def test_without_the_right_to_read_volumes_claims_come_over(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.rest()
    restored_from_ebs(scene)
    get = scene.cluster.get

    def forbidden(resource: Resource, namespace: str | None, name: str) -> Object | None:
        if resource is PERSISTENT_VOLUMES:
            raise KubernetesError("Forbidden", "no right")
        return get(resource, namespace, name)

    monkeypatch.setattr(scene.cluster, "get", forbidden)
    scene.look()
    assert_kept_from_pruning(scene.cluster.one(CLAIM, "orders-0-1"))


def test_retain_frees_the_claims_that_delete_had_tied_to_the_stream(scene: Scene) -> None:
    """Also one that the stream no longer uses: it may hold the only copy of a store."""
    scene.cluster.add_stream(DELETE)
    scene.rest()
    apply_old_claim(scene, "orders-0-0", owned=True)
    scene.cluster.add_stream()
    scene.rest()
    names = scene.cluster.names(CLAIM)
    scene.cluster.delete_as_user("DedupeStream", STREAM)
    assert scene.cluster.names(CLAIM) == names == ["orders-0-0", "orders-0-1", "orders-1-1"]


def test_delete_ties_the_claims_in_use_to_the_stream_and_no_other(scene: Scene) -> None:
    scene.rest()
    apply_old_claim(scene, "orders-0-0")
    scene.cluster.add_stream(DELETE)
    scene.rest()
    scene.cluster.delete_as_user("DedupeStream", STREAM)
    assert scene.cluster.names(CLAIM) == ["orders-0-0"]


def test_nothing_is_written_into_a_stream_but_its_status(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = scene.cluster.apply
    written: list[tuple[str, str | None]] = []

    def noted(wanted: Object, *, subresource: str | None = None) -> Object:
        written.append((wanted["kind"], subresource))
        return apply(wanted, subresource=subresource)

    monkeypatch.setattr(scene.cluster, "apply", noted)
    metadata = deepcopy(scene.cluster.one("DedupeStream", STREAM)["metadata"])
    scene.rest()
    scene.cluster.remove(CLAIM, "orders-0-1")
    scene.rest()
    assert {how for kind, how in written if kind == "DedupeStream"} == {"status"}
    assert scene.cluster.one("DedupeStream", STREAM)["metadata"] == metadata
