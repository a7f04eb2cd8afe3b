"""Workers and nodes that die while a snapshot is made, read or compared: it is gone on with, or the next one works."""

import pytest

from dedupe_crds.annotations import RECONCILE, ReconcileRequest
from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import RestoreSource
from tests.cluster.environment import Environment
from tests.e2e.support.copied import copied_stream
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.nodes import nodes_of
from tests.e2e.support.restores import restore_of, restored
from tests.e2e.support.s3_server import S3Server
from tests.e2e.support.scene import Scene
from tests.e2e.support.snapshots import Snapshots, partition_status
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import lose_volume
from tests.faults.seed import SEED
from tests.support.patience import wait_for
from tests.support.traffic.traffic import order

OBJECTS = "/objects/"
MANY = 100_000  # a comparison of them takes a while
FAILOVER = {"nodeNotReadyAfter": "10s"}


@pytest.fixture(scope="module")
def stream(place: Scene, bucket: S3Server) -> ClusterStream:
    """A stream whose snapshots go to the bucket."""
    made = copied_stream(place, "bucket", bucket=bucket, failover=FAILOVER)
    made.apply()
    made.wait_until_ready()
    return made


@pytest.fixture(scope="module")
def copied(place: Scene, stream: ClusterStream) -> ClusterStream:  # noqa: ARG001 # made side by side
    """A stream whose snapshots the driver makes."""
    made = copied_stream(place, "csi", failover=FAILOVER)
    made.apply()
    made.wait_until_ready()
    return made


def test_a_worker_killed_while_it_uploads_goes_on_with_the_snapshot(
    stream: ClusterStream, bucket: S3Server
) -> None:
    name = f"{stream.name}-upload"
    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
        with bucket.held("PUT", OBJECTS) as uploading:
            Snapshots(stream).ask(name)
            wait_for(uploading.is_set, "an object is on its way")
            kill(stream)
        Snapshots(stream).wait(name, SnapshotPhase.COMPLETED)
        load.begin("after the upload")
        load.wait_until_filled()
        with restored(stream, 0):
            lose_volume(stream, 0)
        load.begin("after the restore")
        load.wait_until_filled()
    load.judged()
    assert (restore_of(stream, 0).source, restore_of(stream, 0).name) == (
        RestoreSource.CHECKPOINT,
        name,
    )


@pytest.mark.matrix  # tests/faults/test_snapshot_kills.py, and the kill during the upload
def test_a_worker_killed_while_it_downloads_begins_again(
    stream: ClusterStream, bucket: S3Server
) -> None:
    name = f"{stream.name}-download"
    with LiveLoad(stream, SEED + 1) as load:
        load.wait_until_filled()
        Snapshots(stream).make(name)
        load.begin("after the snapshot")
        load.wait_until_filled()
        with restored(stream, 0), bucket.held("GET", OBJECTS) as downloading:
            lose_volume(stream, 0)
            wait_for(downloading.is_set, "an object is on its way")
            stream.wait_until(
                lambda: partition_status(stream, 0).restoring is not None, "the restore is shown"
            )
            kill(stream)
        load.begin("after the restore")
        load.wait_until_filled()
    load.judged()
    restore = restore_of(stream, 0)
    assert (restore.source, restore.name, restore.refused) == (RestoreSource.CHECKPOINT, name, [])


@pytest.mark.matrix  # the kill during the upload
def test_a_worker_killed_as_its_snapshot_begins_does_not_stop_the_next_one(
    copied: ClusterStream,
) -> None:
    snapshots = Snapshots(copied)
    name = f"{copied.name}-begun"
    with LiveLoad(copied, SEED) as load:
        load.wait_until_filled()
        snapshots.ask(name)
        kill(copied)
        copied.wait_until(lambda: snapshots.status(name).phase.is_final, f"{name} has ended")
        snapshots.make(f"{copied.name}-next")
        load.begin("after the snapshots")
        load.wait_until_filled()
        with restored(copied, 0):
            lose_volume(copied, 0)
        load.begin("after the restore")
        load.wait_until_filled()
    load.judged()
    assert restore_of(copied, 0).name == f"{copied.name}-next"


@pytest.mark.matrix  # tests/faults/test_reconcile_full.py
def test_a_worker_killed_while_it_compares_its_whole_store_compares_it_again(
    copied: ClusterStream,
) -> None:
    copied.send(order(SEED + 2, number, value_bytes=50) for number in range(MANY))
    copied.wait_until_passed()
    request = ReconcileRequest(request="compare", full=True)
    copied.annotate(RECONCILE.removeprefix(f"{GROUP}/"), request.model_dump_json(by_alias=True))

    def has_begun() -> bool:
        said = copied.worker_status(0).comparison
        return said is not None and said.request == "compare"

    copied.wait_until(has_begun, "it compares")
    kill(copied)

    def is_done() -> bool:
        said = partition_status(copied, 0).comparison
        return said is not None and said.request == "compare" and said.done

    copied.wait_until(is_done, "it has compared")
    found = partition_status(copied, 0).comparison
    assert found is not None
    assert found.records >= MANY
    assert (found.added, found.removed, found.error) == (0, 0, None)
    copied.wait_until_ready()
    copied.judged()


@pytest.mark.alone
@pytest.mark.matrix
@pytest.mark.parametrize("provider", ["CSI", "S3"])
def test_the_node_of_a_worker_dies_while_its_snapshot_is_made(
    release: Environment,
    stream: ClusterStream,
    copied: ClusterStream,
    bucket: S3Server,
    provider: str,
) -> None:
    nodes = nodes_of(release)
    copying = stream if provider == "S3" else copied
    snapshots = Snapshots(copying)
    name = f"{copying.name}-dying"
    node = str(partition_status(copying, 0).node_name)
    nodes.keep_operator_away_from(node)
    with LiveLoad(copying, SEED + 3) as load:
        load.wait_until_filled()
        with bucket.held("PUT", OBJECTS) as uploading:
            snapshots.ask(name)
            if provider == "S3":
                wait_for(uploading.is_set, "an object is on its way")
            else:
                copying.wait_until(
                    lambda: snapshots.status(name).phase is not SnapshotPhase.PENDING, "it is begun"
                )
            with nodes.killed(node):
                bucket.release()
                copying.wait_until(
                    lambda: (
                        partition_status(copying, 0).node_name not in (node, None)
                        and partition_status(copying, 0).ready
                    ),
                    "it runs on another node",
                )
        copying.wait_until(lambda: snapshots.status(name).phase.is_final, f"{name} has ended")
        load.begin("after the failover")
        load.wait_until_filled()
        snapshots.make(f"{copying.name}-next-{provider.lower()}")
        with restored(copying, 0):
            lose_volume(copying, 0)
        load.begin("after the restore")
        load.wait_until_filled()
    load.judged()
    assert restore_of(copying, 0).name == f"{copying.name}-next-{provider.lower()}"


def kill(stream: ClusterStream) -> None:
    """Kill the worker without a warning."""
    stream.kubectl("delete", "pod", stream.pod_name(0), "--grace-period=0", "--force")
