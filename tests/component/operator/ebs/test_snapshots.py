"""Snapshots at EC2: made once, found again, judged, removed; and never those of others."""

import gc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from weakref import ref

import pytest

from dedupe_crds.quantity import GIB
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.snapshots.ebs.client import Ec2
from dedupe_operator.snapshots.ebs.tags import as_list
from dedupe_operator.snapshots.provider import CopyStatus, Job, Provider, ProviderError
from tests.component.operator.ebs.scene import (
    REGION,
    SNAPSHOT_UID,
    AwsScene,
    calls,
    error,
    node,
    refusal,
    tags_of,
)
from tests.support.processes.faulty_proxy import answering, changing, cut_after_the_act

LONG_AGO = datetime.now(UTC) - timedelta(hours=1)


def test_it_is_a_provider(aws: AwsScene) -> None:
    provider: Provider = aws.provider
    assert not provider.takes_checkpoint


def test_a_snapshot_is_of_the_partitions_volume_and_says_what_it_holds(aws: AwsScene) -> None:
    aws.changes["spec.snapshots"] |= {"ebs": {"tags": {"team": "shop", "Name": "mine"}}}
    handle = aws.provider.start(aws.job(1))
    (made,) = aws.snapshots()
    assert (made["SnapshotId"], made["VolumeId"]) == (handle, aws.volumes[1])
    assert tags_of(made) == {
        "Name": "mine",
        "team": "shop",
        "dedupestream.io/stream": "shop/orders",
        "dedupestream.io/partition": "1",
        "dedupestream.io/snapshot": "orders-1",
        "dedupestream.io/snapshot-uid": SNAPSHOT_UID,
        "dedupestream.io/input-topic-id": "in-1",
        "dedupestream.io/output-topic-id": "out-1",
        "dedupestream.io/input-offset": "70",
        "dedupestream.io/output-position": "60",
        "dedupestream.io/keys": "50",
    }


def test_a_users_tags_do_not_replace_those_it_is_found_by(aws: AwsScene) -> None:
    aws.changes["spec.snapshots"] |= {"ebs": {"tags": {"dedupestream.io/partition": "7"}}}
    handle = aws.provider.start(aws.job())
    assert aws.provider.start(aws.job()) == handle
    assert aws.snapshot_ids() == [handle]


def test_the_longest_name_of_a_snapshot_is_not_too_long_for_ec2(aws: AwsScene) -> None:
    aws.provider.start(replace(aws.job(), snapshot="s" * 253))
    (sent,) = (one.form for one in aws.proxy.seen if one.action == "CreateSnapshot")
    assert len(sent["Description"]) == 255
    assert max(len(value) for value in sent.values()) <= 256


def test_a_volume_of_the_time_before_csi_is_known_too(aws: AwsScene) -> None:
    volume = aws.cluster.one("PersistentVolume", "pv-of-orders-0-1")
    del volume["spec"]["csi"]
    volume["spec"]["awsElasticBlockStore"] = {"volumeID": f"aws://eu-central-1b/{aws.volumes[0]}"}
    aws.provider.start(aws.job())
    assert aws.snapshots()[0]["VolumeId"] == aws.volumes[0]


def test_the_region_is_the_specs_before_that_of_the_environment(aws: AwsScene) -> None:
    aws.changes["spec.snapshots"] |= {"ebs": {"region": "us-west-2"}}
    with pytest.raises(ProviderError):  # the volume is not there
        aws.provider.start(aws.job())
    assert all("/us-west-2/ec2/" in one.headers["authorization"] for one in aws.proxy.seen)


def test_regions_that_users_name_do_not_fill_the_memory() -> None:
    clients = Ec2(answer_seconds=1.0)
    made = [ref(clients.client(f"region-{number}")) for number in range(40)]
    kept = [clients.client(f"region-{number}") for number in range(38, 40)]
    gc.collect()
    assert [each() for each in made[-2:]] == kept
    assert sum(each() is not None for each in made) <= 16


def test_a_start_that_is_repeated_adopts_what_was_made(aws: AwsScene) -> None:
    handle = aws.provider.start(aws.job())
    assert aws.provider.start(aws.job()) == handle
    assert aws.restarted().start(aws.job()) == handle
    assert aws.snapshot_ids() == [handle]


def test_a_start_whose_answer_was_lost_adopts_what_it_made(aws: AwsScene) -> None:
    aws.proxy.inject(calls("CreateSnapshot"), cut_after_the_act)
    with pytest.raises(ProviderError) as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("AwsUnavailable", False)
    (made,) = aws.snapshot_ids()
    assert aws.provider.start(aws.job()) == made
    assert aws.snapshot_ids() == [made]


def test_no_other_is_made_before_aws_shows_the_one_whose_answer_was_lost(aws: AwsScene) -> None:
    aws.proxy.inject(calls("CreateSnapshot"), cut_after_the_act)
    aws.proxy.inject(calls("DescribeSnapshots"), changing(_with_none_in_it), times=2)
    for _ in range(2):
        with pytest.raises(ProviderError) as raised:
            aws.provider.start(aws.job())
        assert refusal(raised) == ("AwsUnavailable", False)
    (made,) = aws.snapshot_ids()
    assert aws.provider.start(aws.job()) == made


def test_after_a_while_another_is_made(aws: AwsScene) -> None:
    aws.restarted(eventual_consistency_seconds=0)
    aws.proxy.inject(calls("CreateSnapshot"), answering(500, error("InternalError")))
    with pytest.raises(ProviderError) as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("AwsUnavailable", False)
    assert [aws.provider.start(aws.job())] == aws.snapshot_ids()


def test_of_two_the_older_is_adopted_and_the_younger_goes(aws: AwsScene) -> None:
    first, second = _made_twice(aws)
    aws.alter_snapshot(first, start_time=LONG_AGO)
    aws.alter_snapshot(second, start_time=LONG_AGO - timedelta(minutes=1))
    assert aws.restarted().start(aws.job()) == second
    assert aws.snapshot_ids() == [second]


def test_once_complete_one_that_was_made_twice_goes_and_not_the_one_on_record(
    aws: AwsScene,
) -> None:
    _, recorded = _made_twice(aws)
    assert aws.provider.status(aws.job(handle=recorded)).usable
    assert aws.snapshot_ids() == [recorded]


def test_one_that_failed_before_it_was_recorded_is_not_adopted(aws: AwsScene) -> None:
    failed = aws.provider.start(aws.job())
    aws.alter_snapshot(failed, status="error")
    assert aws.restarted().start(aws.job()) != failed


def test_a_complete_one_is_usable_and_tells_its_size(aws: AwsScene) -> None:
    handle = aws.provider.start(aws.job())
    size = b"<fullSnapshotSizeInBytes>4096</fullSnapshotSizeInBytes></item></snapshotSet>"
    aws.proxy.inject(
        calls("DescribeSnapshots"),
        changing(lambda body: _replaced(body, b"</item></snapshotSet>", size)),
    )
    assert aws.provider.status(aws.job(handle=handle)) == CopyStatus(
        usable=True, bytes=4096, volume_size=20 * GIB
    )


@pytest.mark.parametrize("state", ["pending", "recovering"])
def test_one_that_is_not_complete_is_waited_for(aws: AwsScene, state: str) -> None:
    handle = aws.provider.start(aws.job())
    aws.alter_snapshot(handle, status=state)
    assert aws.provider.status(aws.job(handle=handle)) == CopyStatus(usable=False)
    assert not aws.provider.exists(aws.job(handle=handle))


def test_one_that_failed_says_why(aws: AwsScene) -> None:
    handle = aws.provider.start(aws.job())
    aws.alter_snapshot(handle, status="error", state_message="the key was disabled")
    with pytest.raises(ProviderError, match="the key was disabled") as raised:
        aws.provider.status(aws.job(handle=handle))
    assert refusal(raised) == ("SnapshotFailed", True)
    assert not aws.provider.exists(aws.job(handle=handle))


def test_one_that_was_deleted_is_gone_for_good(aws: AwsScene) -> None:
    job = aws.taken()
    aws.ec2.delete_snapshot(SnapshotId=str(job.entry.handle))
    with pytest.raises(ProviderError) as raised:
        aws.provider.status(job)
    assert refusal(raised) == ("SnapshotGone", True)
    assert not aws.provider.exists(job)


def test_one_in_the_recycle_bin_is_gone(aws: AwsScene) -> None:
    job = aws.taken()
    aws.alter_snapshot(str(job.entry.handle), status="recoverable")
    with pytest.raises(ProviderError) as raised:
        aws.provider.status(job)
    assert refusal(raised) == ("SnapshotGone", True)
    assert not aws.provider.exists(job)


@pytest.mark.parametrize("started", [datetime.now(UTC), LONG_AGO])
def test_one_that_was_just_made_may_not_be_shown_yet(aws: AwsScene, started: datetime) -> None:
    handle = aws.provider.start(aws.job())
    job = aws.job(handle=handle, started=started)
    absent = answering(400, error("InvalidSnapshot.NotFound"))
    aws.proxy.inject(calls("DescribeSnapshots"), absent)
    assert aws.provider.status(job) == CopyStatus(usable=False)
    assert aws.provider.status(job).usable


def test_one_that_was_made_long_ago_and_is_not_shown_is_gone(aws: AwsScene) -> None:
    with pytest.raises(ProviderError) as raised:
        aws.provider.status(aws.job(handle="snap-0123456789abcdef0", started=LONG_AGO))
    assert refusal(raised) == ("SnapshotGone", True)


def test_one_in_the_archive_can_not_be_restored_from_until_it_is_brought_back(
    aws: AwsScene,
) -> None:
    job = aws.taken()
    handle = str(job.entry.handle)
    assert aws.provider.exists(job)
    aws.ec2.modify_snapshot_tier(SnapshotId=handle, StorageTier="archive")
    assert not aws.provider.exists(job)
    with pytest.raises(ProviderError) as raised:
        aws.restored(job)
    assert refusal(raised) == ("SnapshotArchived", True)
    aws.ec2.restore_snapshot_tier(SnapshotId=handle, TemporaryRestoreDays=1)
    assert aws.provider.exists(job)


def test_a_removal_takes_all_of_this_copy_and_may_be_repeated(aws: AwsScene) -> None:
    _, recorded = _made_twice(aws)
    other = aws.provider.start(aws.job(1))
    for _ in range(2):
        aws.provider.remove(aws.job(handle=recorded))
    assert aws.snapshot_ids() == [other]


def test_one_whose_handle_was_never_recorded_is_removed_as_well(aws: AwsScene) -> None:
    aws.provider.start(aws.job())
    aws.restarted().remove(aws.job())
    assert aws.snapshot_ids() == []


def test_one_that_the_search_does_not_show_yet_is_removed_by_its_id(aws: AwsScene) -> None:
    handle = aws.provider.start(aws.job())
    aws.proxy.inject(calls("DescribeSnapshots"), changing(_with_none_in_it))
    aws.provider.remove(aws.job(handle=handle))
    assert aws.snapshot_ids() == []


def test_one_that_goes_while_it_is_removed_is_removed(aws: AwsScene) -> None:
    handle = aws.provider.start(aws.job())
    aws.proxy.inject(calls("DeleteSnapshot"), cut_after_the_act)
    aws.provider.remove(aws.job(handle=handle))
    assert aws.snapshot_ids() == []


def test_a_snapshot_with_other_tags_is_neither_adopted_nor_deleted(aws: AwsScene) -> None:
    others = (
        ("dedupestream.io/snapshot-uid", "another"),
        ("dedupestream.io/partition", "1"),
        ("dedupestream.io/stream", "shop/others"),
        ("dedupestream.io/snapshot", "orders-2"),
    )
    left: list[str] = []
    for changed, recorded in product(others, (True, False)):
        foreign = aws.restarted().start(aws.job())
        aws.ec2.create_tags(Resources=[foreign], Tags=as_list(dict([changed])))
        left.append(foreign)
        aws.restarted()
        ours = aws.provider.start(aws.job())
        assert ours not in left, changed
        assert aws.provider.status(aws.job(handle=ours)).usable
        aws.provider.remove(aws.job(handle=foreign if recorded else ours))
        assert sorted(aws.snapshot_ids()) == sorted(left), changed


def test_snapshots_of_others_are_never_listed_for(aws: AwsScene) -> None:
    aws.provider.start(aws.job())
    (listed,) = (one.form for one in aws.proxy.seen if one.action == "DescribeSnapshots")
    assert listed["Owner.1"] == "self"


def test_an_operator_killed_at_any_call_of_a_snapshot_goes_on(
    aws: AwsScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dedupe_operator.snapshots.ebs.client._ATTEMPTS", 1)

    def take_and_remove() -> None:
        handle = aws.provider.start(aws.job())
        assert aws.provider.status(aws.job(handle=handle)).usable
        assert aws.snapshot_ids() == [handle]
        aws.provider.remove(aws.job(handle=handle))

    for number, after_the_act in product(range(1, 6), (False, True)):
        aws.restarted()
        aws.kill_from(number, after_the_act=after_the_act)
        with pytest.raises(ProviderError) as raised:
            take_and_remove()
        assert refusal(raised) == ("AwsUnavailable", False)
        aws.proxy.clear()
        aws.restarted()
        take_and_remove()
        assert aws.snapshot_ids() == []


def _another_driver(volume: Object) -> None:
    volume["spec"]["csi"] = {"driver": "disk.csi.azure.com", "volumeHandle": "x"}


def _a_local_disk(volume: Object) -> None:
    del volume["spec"]["csi"]
    volume["spec"]["local"] = {"path": "/data"}


@pytest.mark.parametrize("change", [_another_driver, _a_local_disk])
def test_a_volume_that_is_not_on_ebs_is_refused_with_what_to_use(
    aws: AwsScene, change: Callable[[Object], None]
) -> None:
    change(aws.cluster.one("PersistentVolume", "pv-of-orders-0-1"))
    with pytest.raises(
        ProviderError, match=r"use spec\.snapshots\.provider CSI .* else S3"
    ) as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("NotAnEbsVolume", True)


def test_a_volume_that_is_gone_fails_the_snapshot(aws: AwsScene) -> None:
    aws.ec2.delete_volume(VolumeId=aws.volumes[0])
    with pytest.raises(ProviderError, match=aws.volumes[0]) as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("VolumeGone", True)
    aws.cluster.remove("PersistentVolume", "pv-of-orders-0-1")
    with pytest.raises(ProviderError, match="pv-of-orders-0-1") as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("VolumeGone", True)


def test_a_claim_without_its_volume_is_waited_for(aws: AwsScene) -> None:
    del aws.cluster.one("PersistentVolumeClaim", "orders-0-1")["spec"]["volumeName"]
    with pytest.raises(ProviderError) as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("VolumeNotBound", False)
    aws.cluster.remove("PersistentVolumeClaim", "orders-0-1")
    with pytest.raises(ProviderError) as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("NoVolume", False)


def _made_twice(aws: AwsScene) -> tuple[str, str]:
    """Two of the same tags, as after a call whose act was not shown in time."""
    job: Job = aws.job()
    first = aws.provider.start(job)
    aws.proxy.inject(calls("DescribeSnapshots"), changing(_with_none_in_it))
    second = aws.restarted().start(job)
    assert len(aws.snapshot_ids()) == 2
    return first, second


def _with_none_in_it(_: bytes) -> bytes:
    """What DescribeSnapshots answers when it has nothing to show."""
    return (
        b'<DescribeSnapshotsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        b"<requestId>1</requestId><snapshotSet/></DescribeSnapshotsResponse>"
    )


def _replaced(body: bytes, old: bytes, new: bytes) -> bytes:
    assert old in body
    return body.replace(old, new)


def _unbound(aws: AwsScene) -> None:
    aws.cluster.one("PersistentVolumeClaim", "orders-0-1")["status"] = {"phase": "Pending"}


def _bound_by_another(aws: AwsScene) -> None:
    volume = aws.cluster.one("PersistentVolume", "pv-of-orders-0-1")
    volume["spec"]["claimRef"] = {
        "namespace": "theirs",
        "name": "orders-0-1",
        "uid": "uid-of-theirs",
    }


@pytest.mark.parametrize("change", [_unbound, _bound_by_another])
def test_a_strangers_volume_that_a_claim_names_is_not_copied(
    aws: AwsScene, change: Callable[[AwsScene], None]
) -> None:
    """Anyone who may create a claim chooses its volumeName: a copy would give them the data."""
    change(aws)
    with pytest.raises(ProviderError, match="orders-0-1") as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("VolumeNotBound", False)
    assert aws.snapshots() == []


def test_a_snapshot_is_found_and_deleted_in_its_region_after_the_stream_has_another(
    aws: AwsScene,
) -> None:
    job = aws.taken()
    location = aws.provider.location(job)
    assert location.region == REGION
    aws.changes["spec.snapshots"] |= {"ebs": {"region": "us-west-2"}}
    unrecorded = aws.job(handle=job.entry.handle)
    recorded = aws.job(handle=job.entry.handle, location=location)
    assert (aws.provider.exists(unrecorded), aws.provider.exists(recorded)) == (False, True)
    aws.provider.remove(unrecorded)
    assert aws.snapshot_ids() == [job.entry.handle]
    aws.provider.remove(recorded)
    assert aws.snapshot_ids() == []


def test_a_snapshot_in_a_region_without_nodes_is_not_restored_from(aws: AwsScene) -> None:
    job = aws.taken()
    for number in range(2):
        aws.cluster.add(node(f"node-{number}", "us-west-2a"))
    with pytest.raises(ProviderError, match="is in eu-central-1, where no node") as raised:
        aws.provider.source(job, "orders-0-2")
    assert refusal(raised) == ("SnapshotInOtherRegion", True)
