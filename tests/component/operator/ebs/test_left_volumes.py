"""Volumes of restores whose claims are gone: removed if they are ours and nobody's, else named."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from dedupe_operator.snapshots.ebs.tags import as_list
from dedupe_operator.snapshots.provider import LeftBehind
from tests.component.operator.ebs.scene import AwsScene, calls, error, persistent_volume, tags_of
from tests.support.processes.faulty_proxy import answering

CLAIM = "orders-0-2"


def left(aws: AwsScene) -> str:
    """A volume that a restore has made, whose claim and PersistentVolume are gone; its id."""
    made = aws.restored(aws.taken())
    aws.cluster.remove("PersistentVolume", made["metadata"]["name"])
    aws.cluster.remove("PersistentVolumeClaim", CLAIM)
    return str(made["spec"]["csi"]["volumeHandle"])


def cleared(aws: AwsScene) -> LeftBehind:
    return aws.restarted().remove_left_behind(aws.job().stream, [])


def ids(aws: AwsScene) -> list[str]:
    return [each["VolumeId"] for each in aws.restored_volumes()]


def test_a_volume_whose_claim_is_gone_is_removed(aws: AwsScene) -> None:
    volume = left(aws)
    assert cleared(aws).removed == (f"EBS volume {volume}, made for PVC shop/orders-0-2",)
    assert ids(aws) == []
    assert cleared(aws) == LeftBehind()


def test_a_claim_that_has_its_name_again_does_not_keep_it(aws: AwsScene) -> None:
    left(aws)
    aws.claimed(aws.taken(), CLAIM)["metadata"]["uid"] = "another"
    assert len(cleared(aws).removed) == 1


def its_claim_is_there(aws: AwsScene) -> None:
    aws.claimed(aws.taken(), CLAIM)


def a_persistent_volume_names_it(aws: AwsScene) -> None:
    aws.cluster.add(persistent_volume("of-somebody", ids(aws)[0]))


def it_is_attached(aws: AwsScene) -> None:
    image = aws.ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    zone = aws.restored_volumes()[0]["AvailabilityZone"]
    run = aws.ec2.run_instances(
        ImageId=image, MinCount=1, MaxCount=1, Placement={"AvailabilityZone": zone}
    )
    instance = run["Instances"][0]["InstanceId"]
    aws.ec2.attach_volume(Device="/dev/sdf", InstanceId=instance, VolumeId=ids(aws)[0])


def another_cluster_made_it(aws: AwsScene) -> None:
    tag(aws, "dedupestream.io/cluster", "another")


def it_is_of_another_stream(aws: AwsScene) -> None:
    tag(aws, "dedupestream.io/stream", "shop/others")


def tag(aws: AwsScene, name: str, value: str) -> None:
    aws.ec2.create_tags(Resources=ids(aws), Tags=as_list({name: value}))


@pytest.mark.parametrize(
    "change",
    [
        its_claim_is_there,
        a_persistent_volume_names_it,
        it_is_attached,
        another_cluster_made_it,
        it_is_of_another_stream,
    ],
)
def test_a_volume_that_may_be_needed_stays(
    aws: AwsScene, change: Callable[[AwsScene], None]
) -> None:
    volume = left(aws)
    change(aws)
    assert cleared(aws) == LeftBehind()
    assert ids(aws) == [volume]


def test_a_volume_of_an_earlier_release_is_named(aws: AwsScene) -> None:
    volume = left(aws)
    ours = tags_of(aws.restored_volumes()[0])
    later = ["dedupestream.io/cluster", "dedupestream.io/claim-uid"]
    aws.ec2.delete_tags(Resources=[volume], Tags=[{"Key": each} for each in later])
    assert set(later) <= ours.keys()
    (kept,) = cleared(aws).kept
    assert kept.startswith(f"EBS volume {volume}, made for PVC shop/orders-0-2, of an earlier")
    assert ids(aws) == [volume]


def test_a_volume_that_a_pod_may_have_used_is_named(
    aws: AwsScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may have deleted its PersistentVolume to keep it."""
    volume = left(aws)
    monkeypatch.setattr("dedupe_operator.snapshots.ebs.left_volumes._NEW", timedelta(0))
    (kept,) = cleared(aws).kept
    assert kept.endswith("orders-0-2, more than a day ago: a pod may have used it")
    assert ids(aws) == [volume]


def test_a_volume_that_may_not_be_deleted_is_named_with_the_right(aws: AwsScene) -> None:
    volume = left(aws)
    text = "You are not authorized to perform: ec2:DeleteVolume on resource: it"
    refused = answering(403, error("UnauthorizedOperation", text))
    aws.proxy.inject(calls("DeleteVolume"), refused)
    (kept,) = cleared(aws).kept
    assert volume in kept
    assert "AccessDenied: AWS does not allow ec2:DeleteVolume" in kept


def test_without_the_id_of_the_cluster_nothing_is_removed(aws: AwsScene) -> None:
    volume = left(aws)
    aws.cluster.one("Namespace", "kube-system")["metadata"]["uid"] = "of-a-new-cluster"
    assert cleared(aws) == LeftBehind()
    assert ids(aws) == [volume]
