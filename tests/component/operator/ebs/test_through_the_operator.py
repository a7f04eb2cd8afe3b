"""Whole looks at a stream on Amazon EBS: its snapshots made, a volume lost and made again, an operator killed."""

import pytest

from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.names import Object
from tests.component.operator.ebs.scene import ZONE, AwsScene, bound_volume, node, tags_of
from tests.unit.operator.scene import Scene

CLAIM = "PersistentVolumeClaim"


@pytest.fixture
def stream(scene: Scene, aws: AwsScene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A stream whose two partitions are on the account's volumes."""
    monkeypatch.setattr("dedupe_operator.snapshots.ebs.client._ATTEMPTS", 1)
    scene.cluster.add_stream({"spec.snapshots": {"provider": "EBS"}})
    scene.rest()
    for partition, volume_id in enumerate(aws.volumes):
        claim = scene.cluster.one(CLAIM, f"orders-{partition}-1")
        scene.cluster.add(bound_volume(claim, volume_id))
    scene.cluster.add(node("node-1", ZONE))
    return scene


def entries(stream: Scene) -> list[Object]:
    found: list[Object] = stream.snapshot("s")["status"]["partitions"]
    return found


def lose_volume(stream: Scene, *, running: bool = False) -> None:
    """With its node, say: there is no worker until there is another volume."""
    if not running:
        stream.cluster.remove("Pod", "orders-0-0")
    stream.cluster.remove(CLAIM, "orders-0-1")
    stream.cluster.remove("PersistentVolume", "pv-of-orders-0-1")


def assert_restored(stream: Scene, aws: AwsScene) -> None:
    """Once each, and only partition 0."""
    handles = [entry["handle"] for entry in entries(stream)]
    assert sorted(aws.snapshot_ids()) == sorted(handles)
    (volume,) = aws.restored_volumes()
    assert volume["SnapshotId"] == handles[0]
    claim = stream.cluster.one(CLAIM, "orders-0-2")
    bound = stream.cluster.one("PersistentVolume", claim["spec"]["volumeName"])
    assert bound["spec"]["csi"]["volumeHandle"] == volume["VolumeId"]
    assert bound["spec"]["claimRef"]["name"] == "orders-0-2"
    assert claim["spec"]["storageClassName"] == bound["spec"]["storageClassName"]
    restored = stream.cluster.status["partitions"][0]["restore"]
    assert (restored["source"], restored["name"]) == ("Snapshot", "s")
    assert stream.mounted_claim("orders-0") == "orders-0-2"
    assert stream.mounted_claim("orders-1") == "orders-1-1"


@pytest.mark.proof
def test_a_snapshot_is_complete_with_both_partitions_and_their_stamps(
    stream: Scene, aws: AwsScene
) -> None:
    stream.add_snapshot("s")
    stream.rest()
    status = stream.snapshot("s")["status"]
    assert (status["phase"], status["progress"], status["provider"]) == ("Completed", "2/2", "EBS")
    made = {one["SnapshotId"]: one for one in aws.snapshots()}
    assert [made[entry["handle"]]["VolumeId"] for entry in entries(stream)] == aws.volumes
    for entry in entries(stream):
        tags = tags_of(made[entry["handle"]])
        assert tags["dedupestream.io/output-position"] == str(entry["outputPosition"])
        assert tags["dedupestream.io/snapshot-uid"] == stream.snapshot("s")["metadata"]["uid"]


@pytest.mark.proof
def test_a_lost_volume_is_made_from_its_snapshot(stream: Scene, aws: AwsScene) -> None:
    stream.add_snapshot("s")
    stream.rest()
    lose_volume(stream)
    stream.rest()
    assert_restored(stream, aws)
    stream.look()
    assert stream.cluster.writes == []


def test_a_snapshot_that_was_deleted_at_aws_is_passed_over(stream: Scene, aws: AwsScene) -> None:
    stream.add_snapshot("s")
    stream.rest()
    aws.ec2.delete_snapshot(SnapshotId=entries(stream)[0]["handle"])
    lose_volume(stream)
    stream.rest()
    restored = stream.cluster.status["partitions"][0]["restore"]
    assert restored["source"] == "OutputTopic"
    assert "is gone" in restored["refused"][0]
    assert aws.restored_volumes() == []


# Each call, before and after it: with the worker and without it by turns. The other half is of the matrix.
@pytest.mark.parametrize(
    ("number", "after_the_act", "running"),
    [
        pytest.param(
            *(number, after_the_act, running),
            marks=[pytest.mark.matrix] if running == (number % 2 == after_the_act) else [],
        )
        for number in range(1, 13)
        for after_the_act in (False, True)
        for running in (False, True)
    ],
)
def test_an_operator_killed_at_any_call_comes_to_the_same_end(
    stream: Scene, aws: AwsScene, number: int, *, after_the_act: bool, running: bool
) -> None:
    aws.kill_from(number, after_the_act=after_the_act)
    stream.add_snapshot("s")
    for _ in range(3):
        stream.look()
        stream.cluster.settle()
    complete = stream.snapshot("s")["status"]["phase"] == "Completed"
    if not complete:
        aws.proxy.clear()
        stream.restart_operator()
        stream.rest()
    lose_volume(stream, running=running)
    for _ in range(3):
        stream.look()
    aws.proxy.clear()
    stream.restart_operator()
    stream.rest()
    assert_restored(stream, aws)


def test_a_claim_that_a_quota_refuses_leaves_nothing_behind(stream: Scene, aws: AwsScene) -> None:
    stream.add_snapshot("s")
    stream.rest()
    quota = "exceeded quota: small, requested: requests.storage=20Gi, used: 0, limited: 10Gi"
    stream.cluster.fails[CLAIM, "orders-0-2"] = KubernetesError("QuotaExceeded", quota)
    lose_volume(stream)
    for _ in range(4):
        stream.look()
        stream.cluster.settle()
    assert aws.restored_volumes() == []
    assert stream.cluster.condition("Degraded")["reason"] == "QuotaExceeded"
    stream.cluster.fails.clear()
    stream.rest()
    assert_restored(stream, aws)


def test_a_volume_whose_claim_was_deleted_meanwhile_is_removed(
    stream: Scene, aws: AwsScene
) -> None:
    stream.add_snapshot("s")
    stream.rest()
    lose_volume(stream)
    stream.look()
    claim = stream.cluster.one(CLAIM, "orders-0-2")
    quota = KubernetesError("Forbidden", "may not create persistentvolumes")
    stream.cluster.fails["PersistentVolume", claim["spec"]["volumeName"]] = quota
    stream.look()
    (made,) = aws.restored_volumes()
    stream.cluster.remove(CLAIM, "orders-0-2")
    stream.restart_operator()
    stream.rest()
    (volume,) = aws.restored_volumes()
    assert volume["VolumeId"] != made["VolumeId"]
    assert "LeftVolumeRemoved" in stream.cluster.told
    assert stream.mounted_claim("orders-0") == "orders-0-3"
