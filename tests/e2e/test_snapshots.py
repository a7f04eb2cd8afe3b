"""Snapshots that are asked for: shown, given up when they hang; and nobody else's copies touched."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import ConditionStatus, RestoreSource
from tests.e2e.support.copied import copied_stream
from tests.e2e.support.restores import ask_for_restore, wait_until_on_another_volume
from tests.e2e.support.s3_server import BUCKET, S3Server
from tests.e2e.support.scene import Scene
from tests.e2e.support.snapshots import (
    SNAPSHOTS,
    VOLUME_SNAPSHOTS,
    Snapshots,
    foreign_copy,
    uid_of,
)
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import claim_of
from tests.faults.seed import SEED
from tests.support.patience import wait_for
from tests.support.traffic.traffic import retries

VOLUME_SNAPSHOT_CLASSES = "volumesnapshotclasses.snapshot.storage.k8s.io"
VOLUME_SNAPSHOT_CONTENTS = "volumesnapshotcontents.snapshot.storage.k8s.io"
NOBODY = "nobody.e2e.dedupestream.io"
COUNT = 600


@pytest.fixture(scope="module")
def streams(place: Scene, bucket: S3Server) -> dict[str, ClusterStream]:
    """Streams that have passed COUNT messages, by who keeps their snapshots."""
    made = {
        "by hand": copied_stream(place, "hand", partitions=2),
        "in a bucket": copied_stream(place, "bucket", bucket=bucket),
    }
    for stream in made.values():
        stream.apply()
    for stream in made.values():
        stream.wait_until_ready()
        stream.send(retries(SEED, COUNT, partitions=stream.partitions))
        stream.wait_until_passed()
    return made


@pytest.fixture(scope="module")
def class_without_driver(place: Scene) -> Iterator[str]:
    """A VolumeSnapshotClass of a driver that nobody runs."""
    name = f"e2e-{uuid4().hex[:8]}"
    place.kubectl.apply(
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": name},
            "driver": NOBODY,
            "deletionPolicy": "Delete",
        }
    )
    yield name
    place.kubectl("delete", SNAPSHOTS, "--all", "--wait=false")
    place.kubectl("delete", VOLUME_SNAPSHOTS, "--all", "--wait=false")
    wait_for(lambda: _all_let_go(place), "what it should have copied is gone", poll_seconds=0.5)
    place.kubectl("delete", VOLUME_SNAPSHOT_CLASSES, name)


def _all_let_go(place: Scene) -> bool:
    """Let go of what a driver would, if there was one; whether nothing of it is left."""
    left = [
        copy
        for copy in place.kubectl.items(VOLUME_SNAPSHOT_CONTENTS)
        if copy["spec"]["driver"] == NOBODY
    ]
    for copy in left:
        if copy["metadata"].get("deletionTimestamp"):
            name = copy["metadata"]["name"]
            unheld = {"metadata": {"finalizers": None}}
            place.kubectl.patch(VOLUME_SNAPSHOT_CONTENTS, name, unheld)
    return not left


def test_get_shows_stream_phase_provider_partitions_and_size(
    streams: dict[str, ClusterStream],
) -> None:
    stream = streams["by hand"]
    name = f"{stream.name}-shown"
    Snapshots(stream).make(name)
    head, row = stream.kubectl("get", SNAPSHOTS, name).splitlines()
    assert head.split()[:4] == ["NAME", "STREAM", "PHASE", "REASON"]
    assert head.split()[4:] == ["PROVIDER", "PARTITIONS", "SIZE", "AGE"]
    assert row.split()[:5] == [name, stream.name, "Completed", "CSI", "2/2"]


def test_a_snapshot_that_hangs_is_given_up_with_its_cause_and_the_next_one_is_made(
    place: Scene, class_without_driver: str
) -> None:
    stream = copied_stream(
        place,
        "hung",
        snapshots={"deadline": "10s", "csi": {"volumeSnapshotClassName": class_without_driver}},
    )
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED, COUNT))
    snapshots = Snapshots(stream)
    snapshots.ask(f"{stream.name}-hung")
    given_up = snapshots.wait(f"{stream.name}-hung", SnapshotPhase.FAILED)

    assert given_up.reason == "DeadlineExceeded"
    assert "spec.snapshots.deadline" in str(given_up.message)
    [entry] = given_up.partitions
    assert (entry.phase, bool(entry.error)) == (SnapshotPhase.FAILED, True)
    told = stream.wait_for_condition(
        "SnapshotsHealthy", ConditionStatus.FALSE, reason="LastSnapshotFailed"
    )
    assert f"{stream.name}-hung" in told.message
    stream.wait_for_events("SnapshotFailed")
    stream.patch(snapshots={"csi": {"volumeSnapshotClassName": None}, "deadline": "5m"})
    snapshots.make(f"{stream.name}-next")
    stream.wait_for_condition("SnapshotsHealthy", reason="UpToDate")
    stream.judged()


def test_a_name_that_somebody_else_took_fails_the_snapshot_and_their_copy_stays(
    streams: dict[str, ClusterStream],
) -> None:
    stream = streams["by hand"]
    snapshots = Snapshots(stream)
    name = f"{stream.name}-taken"
    theirs = foreign_copy(stream, f"{name}-0")
    snapshots.ask(name)
    failed = snapshots.wait(name, SnapshotPhase.FAILED)

    assert failed.reason == "NameTaken"
    [refused, copied] = failed.partitions
    assert (refused.phase, copied.phase) == (SnapshotPhase.FAILED, SnapshotPhase.COMPLETED)
    snapshots.delete(name)
    stream.wait_until(
        lambda: stream.kubectl.find(VOLUME_SNAPSHOTS, f"{name}-1") is None, "our copy is gone"
    )
    assert uid_of(stream, f"{name}-0") == theirs


@pytest.mark.matrix  # tests/component/worker/snapshots
def test_the_second_copy_in_a_bucket_uploads_what_is_new_and_a_deleted_one_leaves_nothing_behind(
    streams: dict[str, ClusterStream], bucket: S3Server
) -> None:
    stream = streams["in a bucket"]
    snapshots = Snapshots(stream)
    first = snapshots.make(f"{stream.name}-one").partitions[0]
    stream.send(retries(SEED + 1, 50, start=COUNT))
    stream.wait_until_passed()
    second = snapshots.make(f"{stream.name}-two").partitions[0]

    assert first.bytes is not None
    assert second.uploaded_bytes is not None
    assert first.uploaded_bytes is not None
    assert 0 < second.uploaded_bytes < first.bytes
    assert {first.handle, second.handle} <= set(bucket.objects())
    bucket.client().put_object(Bucket="snapshots", Key="somebody/elses", Body=b"theirs")
    snapshots.delete(f"{stream.name}-one")
    left = bucket.objects()
    assert first.handle not in left
    assert {second.handle, "somebody/elses"} <= set(left)


def test_a_copy_is_restored_from_and_deleted_where_it_lies_after_the_bucket_has_changed(
    place: Scene, bucket: S3Server
) -> None:
    stream = copied_stream(place, "moved", bucket=bucket, s3={"prefix": "first"})
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED, COUNT))
    stream.wait_until_passed()
    snapshots, client = Snapshots(stream), bucket.client()
    old, new = f"{stream.name}-old", f"{stream.name}-new"
    other = f"other-{uuid4().hex[:8]}"
    before = snapshots.make(old).partitions[0]
    client.create_bucket(Bucket=other)
    _move(stream, bucket=other, prefix="second/place")
    after = snapshots.make(new).partitions[0]

    places = [
        (each.location.bucket, each.location.prefix)
        for each in (before, after)
        if each.location is not None
    ]
    assert places == [(BUCKET, "first"), (other, "second/place")]
    assert before.handle in bucket.objects()
    assert after.handle in _objects(bucket, other)

    # Its claim is another one, and its worker reads the former bucket.
    claim = claim_of(stream, 0)
    restore = ask_for_restore(stream, "from-the-former-bucket", 0, old)
    assert (restore.source, restore.name) == (RestoreSource.CHECKPOINT, old)
    wait_until_on_another_volume(stream, 0, claim)
    assert stream.starts() == ["Tail"]
    stream.send(retries(SEED, COUNT))
    stream.wait_until_passed()
    stream.judged()

    # Where the settings point now there is no copy of that name; it is deleted where it lies.
    snapshots.delete(old)
    assert before.handle not in bucket.objects()
    assert after.handle in _objects(bucket, other)

    # A bucket that is gone: its copy is not counted on, said by name, and not forgotten.
    _remove_bucket(bucket, other)
    _move(stream, bucket=BUCKET, prefix="third")
    told = stream.wait_for_condition(
        "SnapshotsHealthy", ConditionStatus.FALSE, reason="CopiesNotReadable"
    )
    assert new in told.message
    assert "BucketRefused" in told.message
    refused = ask_for_restore(stream, "from-nowhere", 0, new).refused
    assert "can't be read" in refused[0]
    stream.kubectl("delete", SNAPSHOTS, new, "--wait=false")
    stream.wait_for_condition("SnapshotsHealthy", ConditionStatus.FALSE, reason="CopiesNotDeleted")
    assert stream.kubectl.find(SNAPSHOTS, new) is not None
    client.create_bucket(Bucket=other)
    stream.wait_until(lambda: stream.kubectl.find(SNAPSHOTS, new) is None, "the object is gone")


def _move(stream: ClusterStream, **s3: str) -> None:
    """Let the stream's user choose another place, and wait until all workers have it."""
    generation = stream.get()["metadata"]["generation"]
    stream.patch(snapshots={"s3": s3})
    stream.wait_until(
        lambda: stream.status().observed_generation > generation, "the operator has seen the change"
    )
    stream.wait_until_rolled_out()


def _objects(server: S3Server, bucket: str) -> list[str]:
    listed = server.client().list_objects_v2(Bucket=bucket).get("Contents", [])
    return [each["Key"] for each in listed]


def _remove_bucket(server: S3Server, bucket: str) -> None:
    for key in _objects(server, bucket):
        server.client().delete_object(Bucket=bucket, Key=key)
    server.client().delete_bucket(Bucket=bucket)
