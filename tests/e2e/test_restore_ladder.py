"""Sources that are no longer usable, or vanish while a volume is made from them: the next best one is taken."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dedupe_crds.status.stream import RestoreSource
from tests.e2e.support.copied import copied_stream
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.restores import (
    ask_for_restore,
    restore_of,
    restored,
    wait_until_on_another_volume,
)
from tests.e2e.support.s3_server import BUCKET, S3Server
from tests.e2e.support.scene import Scene
from tests.e2e.support.snapshots import VOLUME_SNAPSHOTS, Snapshots, partition_status
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import CLAIMS, claim_of, forget_copy, lose_copy, lose_volume
from tests.faults.seed import SEED
from tests.support.checker.history import end_offsets
from tests.support.checker.record import Message
from tests.support.patience import pace, wait_for
from tests.support.traffic.topic_changes import create_topic, delete_records, delete_topic
from tests.support.traffic.traffic import order

COUNT = 400
GIVEN_UP_SECONDS = 120.0
MORE_THAN_ANY_NODE_HAS = {"requests": {"cpu": "500"}}


@pytest.fixture(scope="module")
def streams(place: Scene, bucket: S3Server) -> dict[str, ClusterStream]:
    """Ready streams of one partition, by what happens to them."""
    made = {
        "csi": copied_stream(place, "csi"),
        "s3": copied_stream(place, "bucket", bucket=bucket),
        "waiting": copied_stream(place, "waiting"),
        "renewed": copied_stream(place, "renewed"),
        "retained": copied_stream(place, "retained"),
        "unusable": copied_stream(place, "unusable"),
    }
    for stream in made.values():
        stream.apply()
    for stream in made.values():
        stream.wait_until_ready()
    return made


def test_of_the_snapshots_that_are_left_the_newest_is_taken_and_without_any_the_output_topic(
    streams: dict[str, ClusterStream],
) -> None:
    stream = streams["csi"]
    snapshots = Snapshots(stream)
    first, second, third = (f"{stream.name}-{each}" for each in ("first", "second", "third"))
    with LiveLoad(stream, SEED) as load:
        for name in (first, second, third):
            load.wait_until_filled()
            snapshots.make(name)
            load.begin(f"after {name}")
        snapshots.delete(second)
        stream.kubectl("delete", VOLUME_SNAPSHOTS, f"{third}-0")
        with restored(stream, 0):
            lose_volume(stream, 0)
        older = restore_of(stream, 0)
        load.begin("after the restore")
        stream.kubectl("delete", VOLUME_SNAPSHOTS, f"{first}-0")
        with restored(stream, 0):
            lose_volume(stream, 0)
        load.begin("after the rebuild")
        load.wait_until_filled()
    load.judged()

    assert (older.source, older.name) == (RestoreSource.SNAPSHOT, first)
    assert older.refused == [f"{third}: its copy {third}-0 is gone, or not of this partition"]
    rebuilt = restore_of(stream, 0)
    assert (rebuilt.source, rebuilt.name) == (RestoreSource.OUTPUT_TOPIC, None)
    assert rebuilt.refused == [
        f"{third}: its copy {third}-0 is gone, or not of this partition",
        f"{first}: its copy {first}-0 is gone, or not of this partition",
    ]


@pytest.mark.matrix  # tests/component/worker/snapshots/test_download.py
def test_a_copy_in_a_bucket_that_vanishes_while_it_is_read_gives_way_to_the_one_before_it(
    streams: dict[str, ClusterStream], bucket: S3Server
) -> None:
    stream = streams["s3"]
    snapshots = Snapshots(stream)
    older, newer = f"{stream.name}-older", f"{stream.name}-newer"
    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
        snapshots.make(older)
        load.begin("between")
        load.wait_until_filled()
        snapshots.make(newer)
        load.begin("after the snapshots")
        load.wait_until_filled()
        with restored(stream, 0), bucket.held("GET", "/objects/") as reading:
            lose_volume(stream, 0)
            wait_for(reading.is_set, "the copy is being read")
            bucket.delete(*(objects_of(bucket, newer) - objects_of(bucket, older)))
        load.begin("after the restore")
        load.wait_until_filled()
    load.judged()

    restore = restore_of(stream, 0)
    assert (restore.source, restore.name) == (RestoreSource.CHECKPOINT, older)
    [refused] = restore.refused
    assert refused.startswith(f"{newer}: ")


@pytest.mark.matrix  # the newest that is left
def test_a_snapshot_deleted_while_a_claim_waits_for_it_gives_way_to_the_output_topic(
    streams: dict[str, ClusterStream],
) -> None:
    stream = streams["waiting"]
    name = f"{stream.name}-only"
    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
        Snapshots(stream).make(name)
        load.begin("after the snapshot")
        old = claim_of(stream, 0)
        # Its claim gets no volume before its pod has a node.
        stream.patch(worker={"resources": MORE_THAN_ANY_NODE_HAS})
        lose_volume(stream, 0)
        stream.wait_until(lambda: _waiting(stream), "a claim waits for the copy")
        # It stays, about to go, as long as a claim waits for it.
        stream.kubectl("delete", VOLUME_SNAPSHOTS, f"{name}-0", "--wait=false")
        stream.wait_until(
            lambda: restore_of(stream, 0).source is RestoreSource.OUTPUT_TOPIC,
            "another source is chosen",
        )
        message = stream.wait_for_events("RestoreFailed")["RestoreFailed"]
        [left] = _waiting(stream)
        stream.kubectl("delete", CLAIMS, left)
        _let_go(stream, f"{name}-0")
        stream.patch(worker={"resources": None})
        wait_until_on_another_volume(stream, 0, old)
        load.begin("after the rebuild")
        load.wait_until_filled()
    load.judged()

    assert restore_of(stream, 0).refused == [
        f"{name}: its copy {name}-0 is gone, or not of this partition"
    ]
    assert f"PVC {left} got no volume and can be deleted" in message


@pytest.mark.matrix  # it waits for minutes of failures
def test_a_ready_snapshot_of_which_no_volume_can_be_made_gives_way_to_the_one_before_it(
    streams: dict[str, ClusterStream],
) -> None:
    stream = streams["unusable"]
    snapshots = Snapshots(stream)
    older, newer = f"{stream.name}-older", f"{stream.name}-newer"
    with LiveLoad(stream, SEED) as load:
        for name in (older, newer):
            load.wait_until_filled()
            snapshots.make(name)
            load.begin(f"after {name}")
        lose_copy(stream, f"{newer}-0")
        lose_volume(stream, 0)
        stream.wait_until(lambda: restore_of(stream, 0).name == newer, "the newer is taken first")
        failing = claim_of(stream, 0)
        pace(GIVEN_UP_SECONDS)
        stream.wait_until(lambda: restore_of(stream, 0).name == older, "the older is taken")
        message = stream.wait_for_events("RestoreFailed")["RestoreFailed"]
        wait_until_on_another_volume(stream, 0, failing)
        load.begin("after the restore")
        load.wait_until_filled()
    load.judged()

    copy = stream.kubectl.get(VOLUME_SNAPSHOTS, f"{newer}-0")
    assert copy["status"]["readyToUse"]
    assert _waiting(stream) == [failing]
    restore = restore_of(stream, 0)
    assert (restore.source, restore.name) == (RestoreSource.SNAPSHOT, older)
    [refused] = restore.refused
    assert refused.startswith(f"{newer}: no volume can be made from it: ")
    assert refused.removeprefix(f"{newer}: ") in message
    assert f"PVC {failing} got no volume and can be deleted" in message
    stream.kubectl("delete", CLAIMS, failing)
    forget_copy(stream, f"{newer}-0")


def test_a_snapshot_of_a_topic_that_was_made_again_since_is_refused(
    streams: dict[str, ClusterStream],
) -> None:
    stream = streams["renewed"]
    name = f"{stream.name}-outdated"
    stream.send(order(SEED, number) for number in range(COUNT))
    stream.wait_until_passed()
    Snapshots(stream).make(name)
    stream.patch(suspend=True)
    stream.wait_until(lambda: not stream.children("pods"), "its worker is stopped")
    delete_topic(stream, stream.output_topic)
    create_topic(stream, stream.output_topic)
    stream.patch(suspend=False)
    stream.wait_until_ready()

    why = f"{name}: the output topic was deleted and created again since"
    assert ask_for_restore(stream, "outdated", 0, name).refused == [why]
    with restored(stream, 0):
        lose_volume(stream, 0)
    restore = restore_of(stream, 0)
    assert (restore.source, restore.refused) == (RestoreSource.OUTPUT_TOPIC, [why])


@pytest.mark.matrix  # the topic that was made again
def test_a_snapshot_that_the_output_topic_no_longer_follows_is_refused_and_the_shorter_window_said(
    streams: dict[str, ClusterStream],
) -> None:
    stream = streams["retained"]
    name = f"{stream.name}-too-old"
    stream.send(of_today(range(COUNT)))
    stream.wait_until_passed()
    position = Snapshots(stream).make(name).partitions[0].output_position
    stream.send(of_today(range(COUNT, 2 * COUNT)))
    stream.wait_until_passed()
    end = end_offsets(stream.bootstrap_servers, stream.output_topic)[0]
    delete_records(stream, stream.output_topic, end)
    stream.send(of_today(range(2 * COUNT, 3 * COUNT)))
    stream.wait_until_passed()

    with restored(stream, 0):
        lose_volume(stream, 0)

    restore = restore_of(stream, 0)
    assert restore.source is RestoreSource.OUTPUT_TOPIC
    assert restore.refused == [
        f"{name}: the output topic no longer has the records after its position {position}: "
        f"it begins at offset {end}"
    ]
    stream.wait_until(
        lambda: partition_status(stream, 0).window_truncated, "the shorter window is said"
    )
    # What is still there is remembered.
    stream.send(of_today(range(2 * COUNT, 4 * COUNT)))
    stream.wait_until_passed()
    kept = [record.key for record in stream.clean()]
    assert kept == [order(SEED, number).key for number in range(2 * COUNT, 4 * COUNT)]


def of_today(numbers: range) -> Iterator[Message]:
    """Orders as they are sent now: what is gone of them would still be within the window."""
    for number in numbers:
        yield replace(order(SEED, number), timestamp_ms=None)


def objects_of(bucket: S3Server, snapshot: str) -> set[str]:
    """The objects that a copy in the bucket consists of, its manifest apart."""
    [manifest] = [key for key in bucket.objects() if key.endswith(f"/snapshots/{snapshot}.json")]
    answer = bucket.client().get_object(Bucket=BUCKET, Key=manifest)
    digests = [file["sha256"] for file in json.load(answer["Body"])["files"]]
    above = manifest.rpartition("/snapshots/")[0]
    return {f"{above}/objects/{digest}" for digest in digests}


def _waiting(stream: ClusterStream) -> list[str]:
    """The claims that are to be made from a snapshot, and have no volume yet."""
    return [
        claim["metadata"]["name"]
        for claim in stream.children(CLAIMS)
        if claim["status"]["phase"] == "Pending" and "dataSource" in claim["spec"]
    ]


def _let_go(stream: ClusterStream, volume_snapshot: str) -> None:
    """Have a VolumeSnapshot go that a claim waited for: its controller looks again when it is changed."""
    stream.kubectl("annotate", VOLUME_SNAPSHOTS, "--all", "--overwrite", "e2e=changed")
    stream.wait_until(
        lambda: stream.kubectl.find(VOLUME_SNAPSHOTS, volume_snapshot) is None, "it is gone"
    )
