"""Volumes made of snapshots: once, where a worker can attach them, and bound to one claim alone."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product

import pytest

from dedupe_crds.quantity import GIB
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.snapshots.ebs.tags import as_list
from dedupe_operator.snapshots.provider import ProviderError
from tests.component.operator.ebs.scene import (
    SNAPSHOT_UID,
    ZONE,
    AwsScene,
    calls,
    error,
    node,
    persistent_volume,
    refusal,
    tags_of,
)
from tests.support.kubernetes_schemas.schemas import MINORS, errors
from tests.support.processes.faulty_proxy import answering, changing, cut_after_the_act
from tests.unit.operator.fake_cluster import CLUSTER_UID

CLAIM = "orders-0-2"
TAGS = {
    "dedupestream.io/claim": "shop/orders-0-2",
    "dedupestream.io/claim-uid": "uid-of-orders-0-2",
    "dedupestream.io/cluster": CLUSTER_UID,
    "dedupestream.io/stream": "shop/orders",
    "dedupestream.io/partition": "0",
    "dedupestream.io/snapshot": "orders-1",
    "dedupestream.io/snapshot-uid": SNAPSHOT_UID,
}
"""The tags by which the volume of `CLAIM` is found."""


def gp3(**parameters: str) -> Object:
    """The StorageClass of the scene's volumes."""
    return {
        "kind": "StorageClass",
        "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com",
        "parameters": parameters,
    }


def test_a_volume_is_made_of_the_snapshot_and_bound_to_the_claim(aws: AwsScene) -> None:
    job = aws.taken()
    source = aws.provider.source(job, CLAIM)
    assert aws.restored_volumes() == [], "the claim is first"
    made = aws.restored(job)
    (volume,) = aws.restored_volumes()
    assert volume["SnapshotId"] == job.entry.handle
    assert (volume["AvailabilityZone"], volume["Size"]) == (ZONE, 20)
    assert (volume["VolumeType"], volume["Encrypted"]) == ("gp3", False)
    assert tags_of(volume) == {"Name": CLAIM, "ebs.csi.aws.com/cluster": "true", **TAGS}
    assert source.claim_spec == {
        "volumeName": made["metadata"]["name"],
        "storageClassName": "gp3",
    }
    assert source.least_size == 20 * GIB
    assert made["metadata"]["labels"]["dedupestream.io/partition"] == "0"
    assert {minor: errors(minor, made) for minor in MINORS if errors(minor, made)} == {}
    in_zone = {"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": [ZONE]}
    assert made["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "20Gi"},
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": volume["VolumeId"], "fsType": "xfs"},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "shop",
            "name": CLAIM,
            "uid": "uid-of-orders-0-2",
        },
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "gp3",
        "volumeMode": "Filesystem",
    }


def test_asked_again_it_makes_nothing_more(aws: AwsScene) -> None:
    job = aws.taken()
    made = aws.restored(job)
    writes = len(aws.cluster.writes)
    aws.ec2.delete_snapshot(SnapshotId=str(job.entry.handle))
    assert aws.restored(job) == made
    aws.restarted()
    assert aws.restored(job) == made
    assert len(aws.cluster.writes) == writes
    assert len(aws.restored_volumes()) == 1


def test_a_stream_that_grew_meanwhile_gets_a_volume_that_is_large_enough(aws: AwsScene) -> None:
    job = aws.taken()
    small = aws.restored(job)
    aws.changes["spec.storage"] = {"size": "30Gi"}
    grown = aws.job(handle=job.entry.handle)
    large = aws.restored(grown, "orders-0-3")
    assert small["spec"]["capacity"]["storage"] == "20Gi"
    assert large["spec"]["capacity"]["storage"] == "30Gi"


def test_the_volume_is_as_large_as_the_claim_was_granted(aws: AwsScene) -> None:
    """A user raises spec.storage.size after the claim was made, or a webhook has changed it."""
    job = aws.taken()
    aws.claimed(job, CLAIM)["spec"]["resources"]["requests"]["storage"] = "24.5Gi"
    aws.changes["spec.storage"] = {"size": "30Gi"}
    made = aws.restored(aws.job(handle=job.entry.handle))
    assert made["spec"]["capacity"]["storage"] == "25Gi"


def test_every_claim_and_every_snapshot_has_a_volume_of_its_own(aws: AwsScene) -> None:
    job = aws.taken()
    later = aws.job(uid="another", handle=aws.provider.start(aws.job(uid="another")))
    made = [
        aws.restored(job, CLAIM),
        aws.restored(job, "orders-0-3"),
        aws.restored(later, "orders-0-4"),
    ]
    names = {aws.provider.source(each, CLAIM).claim_spec["volumeName"] for each in (job, later)}
    assert len(names) == 2
    assert len({one["spec"]["csi"]["volumeHandle"] for one in made}) == 3
    assert len(aws.restored_volumes()) == 3


def test_a_volume_that_is_being_made_is_waited_for(aws: AwsScene) -> None:
    job = aws.taken()
    aws.proxy.inject(calls("CreateVolume"), changing(_in_state("creating")))
    aws.proxy.inject(calls("DescribeVolumes"), changing(_in_state("creating")), times=2)
    for _ in range(2):
        with pytest.raises(ProviderError) as raised:
            aws.restored(job)
        assert refusal(raised) == ("VolumeNotReady", False)
    assert aws.proxy.pending == 0
    assert aws.restored(job)
    assert len(aws.restored_volumes()) == 1


def test_a_volume_that_failed_moves_on_to_another_source(aws: AwsScene) -> None:
    job = aws.taken()
    aws.proxy.inject(calls("CreateVolume"), changing(_in_state("error")))
    with pytest.raises(ProviderError, match="state error") as raised:
        aws.restored(job)
    assert refusal(raised) == ("VolumeFailed", True)


def test_a_volume_that_was_never_made_is_not_waited_for_for_ever(aws: AwsScene) -> None:
    """As when the key of an encrypted snapshot may not be used: EC2 announces it, and drops it."""
    job = aws.taken()
    aws.proxy.inject(calls("CreateVolume"), changing(_in_state("creating")))
    with pytest.raises(ProviderError):
        aws.restored(job)
    (announced,) = aws.restored_volumes()
    aws.ec2.delete_volume(VolumeId=announced["VolumeId"])
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    stale = changing(lambda body: _created_at(_in_state("creating")(body), an_hour_ago))
    aws.proxy.inject(calls("CreateVolume"), stale)
    with pytest.raises(ProviderError, match="KMS key") as raised:
        aws.restored(job)
    assert refusal(raised) == ("VolumeFailed", True)


def test_a_request_whose_answers_were_lost_is_repeated_as_the_same(aws: AwsScene) -> None:
    job = aws.taken()
    aws.proxy.inject(calls("CreateVolume"), cut_after_the_act, times=3)
    with pytest.raises(ProviderError) as raised:
        aws.restored(job)
    assert refusal(raised) == ("AwsUnavailable", False)
    aws.proxy.inject(calls("DescribeVolumes"), changing(_with_none_in_it))
    aws.restarted()
    made = aws.restored(job)
    (volume,) = aws.restored_volumes()
    assert made["spec"]["csi"]["volumeHandle"] == volume["VolumeId"]


def test_an_operator_killed_at_any_call_of_a_restore_goes_on(
    aws: AwsScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dedupe_operator.snapshots.ebs.client._ATTEMPTS", 1)
    job = aws.taken()
    for number, after_the_act in product(range(1, 4), (False, True)):
        claim = f"orders-0-{number}-{after_the_act}"
        aws.restarted()
        aws.claimed(job, claim)
        aws.kill_from(number, after_the_act=after_the_act)
        with pytest.raises(ProviderError):
            aws.restored(job, claim)
        aws.proxy.clear()
        aws.restarted()
        aws.restored(job, claim)
        made = [one for one in aws.restored_volumes() if tags_of(one)["Name"] == claim]
        assert len(made) == 1, claim


def test_an_operator_killed_before_the_persistent_volume_goes_on(
    aws: AwsScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = aws.taken()

    def refuse(*_: object) -> None:
        raise KubernetesError("Forbidden", "may not patch persistentvolumes")

    with monkeypatch.context() as patched:
        patched.setattr(aws.cluster, "apply", refuse)
        with pytest.raises(ProviderError) as raised:
            aws.restored(job)
    assert refusal(raised) == ("Forbidden", False)
    aws.restarted()
    made = aws.restored(job)
    (volume,) = aws.restored_volumes()
    assert made["spec"]["csi"]["volumeHandle"] == volume["VolumeId"]


def test_a_volume_with_other_tags_is_not_taken(aws: AwsScene) -> None:
    job = aws.taken()
    for name, value in (
        ("dedupestream.io/stream", "shop/others"),
        ("dedupestream.io/partition", "1"),
        ("dedupestream.io/claim-uid", "of-a-claim-before"),
        ("dedupestream.io/snapshot-uid", "another"),
    ):
        aws.ec2.create_volume(
            AvailabilityZone=ZONE,
            SnapshotId=str(job.entry.handle),
            TagSpecifications=[{"ResourceType": "volume", "Tags": as_list({**TAGS, name: value})}],
        )
    foreign = {one["VolumeId"] for one in aws.ec2.describe_volumes()["Volumes"]}
    made = aws.restored(job)
    assert made["spec"]["csi"]["volumeHandle"] not in foreign


@pytest.mark.parametrize("seen", [False, True])
def test_a_snapshot_that_is_gone_is_final(aws: AwsScene, *, seen: bool) -> None:
    job = aws.taken()
    aws.claimed(job, CLAIM)
    if seen:  # it goes between two calls
        absent = answering(400, error("InvalidSnapshot.NotFound"))
        aws.proxy.inject(calls("CreateVolume"), absent)
    else:
        aws.ec2.delete_snapshot(SnapshotId=str(job.entry.handle))
    with pytest.raises(ProviderError) as raised:
        aws.restored(job)
    assert refusal(raised) == ("SnapshotGone", True)
    assert not aws.restored_volumes()


def _own_volume_is_elsewhere(aws: AwsScene) -> None:
    volume = persistent_volume("pv-of-orders-0-1", aws.volumes[0], "eu-central-1a")
    aws.cluster.add(volume)


def _own_volume_is_gone(aws: AwsScene) -> None:
    aws.cluster.remove("PersistentVolume", "pv-of-orders-0-1")


def _all_volumes_are_gone(aws: AwsScene) -> None:
    for partition in range(2):
        aws.cluster.remove("PersistentVolumeClaim", f"orders-{partition}-1")


def _the_zone_has_no_ready_node(aws: AwsScene) -> None:
    aws.cluster.add(node("node-1", ZONE, ready=False))


def _the_zone_has_a_cordoned_node(aws: AwsScene) -> None:
    aws.cluster.add(node("node-1", ZONE, cordoned=True))


@pytest.mark.parametrize(
    ("change", "zone"),
    [
        (_own_volume_is_elsewhere, "eu-central-1a"),
        (_own_volume_is_gone, ZONE),
        (_all_volumes_are_gone, "eu-central-1a"),
        (_the_zone_has_no_ready_node, "eu-central-1a"),
        (_the_zone_has_a_cordoned_node, "eu-central-1a"),
    ],
)
def test_the_volume_is_where_a_ready_node_can_attach_it(
    aws: AwsScene, change: Callable[[AwsScene], None], zone: str
) -> None:
    job = aws.taken()
    change(aws)
    made = aws.restored(aws.job(0, handle=job.entry.handle))
    assert aws.restored_volumes()[0]["AvailabilityZone"] == zone
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == [zone]


def test_partitions_that_lost_everything_are_spread_over_the_zones(aws: AwsScene) -> None:
    jobs = [aws.taken(partition) for partition in range(2)]
    _all_volumes_are_gone(aws)
    for job in jobs:
        gone = aws.job(job.partition, handle=job.entry.handle)
        aws.restored(gone, f"orders-{job.partition}-2")
    zones = {one["AvailabilityZone"] for one in aws.restored_volumes()}
    assert zones == {"eu-central-1a", ZONE}


def test_without_a_ready_node_none_is_made(aws: AwsScene) -> None:
    job = aws.taken()
    aws.cluster.add(node("node-0", None))
    aws.cluster.add(node("node-1", ZONE, ready=False))
    with pytest.raises(ProviderError) as raised:
        aws.provider.source(job, CLAIM)
    assert refusal(raised) == ("ZoneUnknown", False)
    assert not aws.restored_volumes()


def test_a_volume_keeps_the_zone_it_was_begun_in(aws: AwsScene) -> None:
    job = aws.taken()
    aws.proxy.inject(calls("CreateVolume"), changing(_in_state("creating")))
    with pytest.raises(ProviderError):
        aws.restored(job)
    _the_zone_has_no_ready_node(aws)
    made = aws.restored(job)
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == [ZONE]
    assert len(aws.restored_volumes()) == 1


@pytest.mark.parametrize(
    ("claimed", "wanted", "made"), [("20Gi", "30Gi", 30), ("41Gi", "20Gi", 41)]
)
def test_the_volume_holds_what_the_snapshot_the_stream_and_the_old_claim_need(
    aws: AwsScene, claimed: str, wanted: str, made: int
) -> None:
    job = aws.taken()
    assert job.entry.volume_size is None
    assert aws.provider.status(job).volume_size == 20 * GIB
    old = aws.cluster.one("PersistentVolumeClaim", "orders-0-1")
    old["spec"]["resources"]["requests"]["storage"] = claimed
    aws.changes["spec.storage"] = {"size": wanted}
    made_of = aws.job(handle=job.entry.handle)
    assert aws.restored(made_of)["spec"]["capacity"]["storage"] == f"{made}Gi"
    assert aws.restored_volumes()[0]["Size"] == made


def test_the_volume_is_as_the_storage_class_says(aws: AwsScene) -> None:
    job = aws.taken()
    cases: list[tuple[dict[str, str], dict[str, str]]] = [
        ({}, {"VolumeType": "gp3"}),
        ({"type": "io2", "iops": "500"}, {"VolumeType": "io2", "Iops": "500"}),
        ({"type": "io1", "iopsPerGB": "50"}, {"VolumeType": "io1", "Iops": "1000"}),
        ({"Type": "gp3", "throughput": "250"}, {"VolumeType": "gp3", "Throughput": "250"}),
        ({"iops": "many"}, {"VolumeType": "gp3"}),
        (
            {"encrypted": "true", "kmsKeyId": "alias/shop"},
            {"VolumeType": "gp3", "Encrypted": "true", "KmsKeyId": "alias/shop"},
        ),
        ({"kmsKeyId": "alias/shop"}, {"VolumeType": "gp3"}),
    ]
    for number, (parameters, _) in enumerate(cases):
        aws.cluster.add(gp3(**parameters))
        aws.restored(job, f"orders-0-{number + 2}")
    speaking = ("VolumeType", "Iops", "Throughput", "Encrypted", "KmsKeyId")
    requests = [one.form for one in aws.proxy.seen if one.action == "CreateVolume"]
    found = [{name: form[name] for name in speaking if name in form} for form in requests]
    assert found == [sent for _, sent in cases]


def test_the_parameters_of_another_driver_are_not_for_ebs(aws: AwsScene) -> None:
    aws.cluster.add({**gp3(type="Premium_LRS"), "provisioner": "disk.csi.azure.com"})
    aws.restored(aws.taken())
    assert aws.restored_volumes()[0]["VolumeType"] == "gp3"


@pytest.mark.parametrize(
    ("wanted", "theirs", "found"),
    [("fast", "gp3", "fast"), (None, "gp3", "gp3"), (None, None, "")],
)
def test_claim_and_volume_are_of_the_same_class(
    aws: AwsScene, wanted: str | None, theirs: str | None, found: str
) -> None:
    if wanted:
        aws.changes["spec.storage"] |= {"storageClassName": wanted}
    for partition in range(2):
        volume = aws.cluster.one("PersistentVolume", f"pv-of-orders-{partition}-1")
        volume["spec"]["storageClassName"] = theirs
    job = aws.taken()
    assert aws.claimed(job, CLAIM)["spec"]["storageClassName"] == found
    assert aws.restored(job)["spec"]["storageClassName"] == found


def test_a_stream_whose_volumes_go_with_it_has_the_driver_delete_this_one_too(
    aws: AwsScene,
) -> None:
    aws.changes["spec.storage"] |= {"reclaimPolicy": "Delete"}
    made = aws.restored(aws.taken())
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    # Without it the driver's provisioner leaves the volume alone.
    provisioner = made["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"]
    assert provisioner == "ebs.csi.aws.com"


def _in_state(state: str) -> Callable[[bytes], bytes]:
    new = f"<status>{state}</status>".encode()
    return lambda body: body.replace(b"<status>available</status>", new)


def _created_at(body: bytes, time: datetime) -> bytes:
    before, rest = body.split(b"<createTime>")
    return before + f"<createTime>{time:%Y-%m-%dT%H:%M:%SZ}".encode() + rest[rest.index(b"<") :]


def _with_none_in_it(_: bytes) -> bytes:
    """What DescribeVolumes answers when it has nothing to show."""
    return (
        b'<DescribeVolumesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        b"<requestId>1</requestId><volumeSet/></DescribeVolumesResponse>"
    )


@pytest.mark.parametrize("tag", ["dedupestream.io/stream", "dedupestream.io/partition"])
def test_a_snapshot_of_others_in_a_status_is_neither_shown_nor_restored_from(
    aws: AwsScene, tag: str
) -> None:
    """The id in a status is chosen by any user who may write it, or apply one from a backup."""
    job = aws.taken()
    handle = str(job.entry.handle)
    aws.ec2.create_tags(Resources=[handle], Tags=as_list({tag: "theirs"}))
    assert not aws.provider.exists(job)
    for act in (aws.provider.status, partial(aws.provider.source, claim_name=CLAIM)):
        with pytest.raises(ProviderError, match=f"{handle} .*{tag}=") as raised:
            act(job)
        assert refusal(raised) == ("SnapshotNotOurs", True)
    assert aws.restored_volumes() == []


def test_a_snapshot_object_that_was_applied_again_is_restored_from(aws: AwsScene) -> None:
    """In a new cluster, with another UID: stream and partition tell whose the copy is."""
    handle = aws.taken().entry.handle
    job = aws.job(uid="uid-in-a-new-cluster", handle=handle, phase=SnapshotPhase.COMPLETED)
    assert aws.provider.exists(job)
    assert aws.restored(job)
