"""A volume that is gone: its partition comes back from the best source that is left, and nothing comes twice."""

import pytest

from dedupe_crds.status.stream import RestoreSource
from tests.cluster.environment import Environment
from tests.e2e.support.copied import copied_stream
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.plugin import Plugin
from tests.e2e.support.restores import (
    ask_for_restore,
    assert_restored_under_load,
    restore_of,
    restored,
)
from tests.e2e.support.s3_server import S3Server
from tests.e2e.support.scene import Scene
from tests.e2e.support.snapshots import Snapshots, partition_status
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import CLAIMS, claim_of
from tests.faults.seed import SEED

PARTITIONS = 2


@pytest.fixture(scope="module")
def copied(place: Scene, bucket: S3Server) -> dict[str, ClusterStream]:
    """A stream with snapshots of each provider."""
    streams = {
        "CSI": copied_stream(place, "csi", partitions=PARTITIONS),
        "S3": copied_stream(place, "bucket", bucket=bucket, partitions=PARTITIONS),
    }
    for stream in streams.values():
        stream.apply()
    for stream in streams.values():
        stream.wait_until_ready()
    return streams


def test_a_lost_volume_comes_back_from_the_newest_copy_in_a_bucket_and_no_repeat_passes(
    copied: dict[str, ClusterStream],
) -> None:
    stream = copied["S3"]
    assert_restored_under_load(
        stream, SEED, f"{stream.name}-first", RestoreSource.CHECKPOINT, "StoreFromCheckpoint"
    )


def test_a_partition_is_restored_by_hand_on_a_new_volume_and_its_old_one_is_kept(
    release: Environment, copied: dict[str, ClusterStream]
) -> None:
    stream = copied["CSI"]
    name = f"{stream.name}-by-hand"
    with LiveLoad(stream, SEED + 1) as load:
        load.wait_until_filled()
        Snapshots(stream).make(name)
        load.begin("after the snapshot")
        load.wait_until_filled()
        old = claim_of(stream, 1)
        with restored(stream, 1):
            said = Plugin(release, stream.namespace)(
                *("restore", stream.name, "--partition", "1", "--from", name, "--yes", "--wait")
            )
        load.begin("after the restore")
        load.wait_until_filled()
    load.judged()

    restore = restore_of(stream, 1)
    assert (restore.source, restore.name) == (RestoreSource.SNAPSHOT, name)
    assert restore.request is not None
    assert claim_of(stream, 1) in said
    assert stream.kubectl.find(CLAIMS, old) is not None


@pytest.mark.matrix  # tests/unit/operator/controller/test_reconcile_restore.py
def test_a_restore_by_hand_from_what_is_not_the_partitions_is_refused_with_the_reason(
    copied: dict[str, ClusterStream],
) -> None:
    stream, other = copied["CSI"], copied["S3"]
    Snapshots(other).make(f"{other.name}-theirs", partitions=[0])
    Snapshots(stream).make(f"{stream.name}-half", partitions=[0])
    before = partition_status(stream, 1)

    for number, (source, why) in enumerate(
        (
            (f"{other.name}-theirs", f"it is of stream {other.name}"),
            (f"{stream.name}-half", "it has no copy of this partition"),
            ("nobodys", "there is no such DedupeSnapshot"),
        )
    ):
        answer = ask_for_restore(stream, f"refused-{number}", 1, source)
        assert answer.refused == [f"{source}: {why}"]

    after = partition_status(stream, 1)
    assert after.persistent_volume_claim == before.persistent_volume_claim
    stream.wait_until(lambda: partition_status(stream, 1).ready, "it is ready as before")
    stream.wait_for_events("SnapshotRefused")

    def counts() -> list[int]:
        return [one["count"] for one in stream.events() if "nobodys" in one["message"]]

    ask_for_restore(stream, "refused-again", 1, "nobodys")
    stream.wait_until(lambda: counts() == [2], "the repeated event counts up")
