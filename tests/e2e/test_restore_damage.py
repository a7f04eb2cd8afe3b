"""Volumes whose content can't be trusted: damaged on the disk, or another partition's."""

from collections.abc import Iterator

import pytest

from dedupe_crds.status.stream import RestoreSource
from tests.cluster.environment import Environment
from tests.e2e.support.copied import copied_stream
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.restores import restore_of
from tests.e2e.support.scene import scene
from tests.e2e.support.snapshots import Snapshots
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import claim_of, damage_store, digests, swap_volumes, volume_of
from tests.faults.seed import SEED

PARTITIONS = 2


@pytest.fixture(scope="module")
def stream(
    release: Environment, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ClusterStream]:
    with scene(release, "damage", tmp_path_factory.mktemp("damage"), request) as place:
        made = copied_stream(place, "orders", partitions=PARTITIONS)
        made.apply()
        made.wait_until_ready()
        yield made


@pytest.mark.matrix  # tests/faults/test_store_damage.py
@pytest.mark.parametrize(("checkpoint_too", "way"), [(False, "Checkpoint"), (True, "StoreCorrupt")])
def test_a_store_damaged_on_its_volume_is_got_over_by_its_worker(
    stream: ClusterStream, *, checkpoint_too: bool, way: str
) -> None:
    with LiveLoad(stream, SEED + checkpoint_too) as load:
        load.wait_until_filled()
        # The checkpoint has the same files, as hard links.
        Snapshots(stream).make(f"{stream.name}-{way.lower()}")
        load.begin("after the checkpoint")
        load.wait_until_filled()
        claim, other = claim_of(stream, 0), stream.children("pods", 1)[0]["metadata"]["uid"]
        volume = volume_of(stream, claim)
        assert damage_store(stream, 0, checkpoint_too=checkpoint_too) > 0
        kill(stream, 0)
        load.begin("after the damage")
        load.wait_until_filled()
        assert stream.starts()[0] == way
    load.judged()

    assert (claim_of(stream, 0), volume_of(stream, claim)) == (claim, volume)
    assert stream.children("pods", 1)[0]["metadata"]["uid"] == other


def kill(stream: ClusterStream, partition: int) -> None:
    """Delete a pod by force, and wait until the one after it is ready."""
    before = stream.uids("pods")
    name = stream.pod_name(partition)
    stream.kubectl("delete", "pod", name, "--grace-period=0", "--force")

    def followed() -> bool:
        pod = stream.kubectl.find("pod", name)
        if pod is None or pod["metadata"]["uid"] == before[f"Pod/{name}"]:
            return False
        return any(one["ready"] for one in pod["status"].get("containerStatuses", []))

    stream.wait_until(followed, f"another {name} is ready")


@pytest.mark.matrix  # tests/faults/test_state_directory.py
def test_volumes_swapped_with_one_another_are_refused_and_let_alone(
    stream: ClusterStream,
) -> None:
    with LiveLoad(stream, SEED + 2) as load:
        load.wait_until_filled()
        Snapshots(stream).make(f"{stream.name}-unswapped")
        load.begin("after the snapshot")
        stream.patch(suspend=True)
        stream.wait_until(lambda: not stream.children("pods"), "its workers are stopped")
        swap_volumes(stream, 0, 1)
        claims = [claim_of(stream, partition) for partition in (0, 1)]
        swapped = {claim: digests(stream, claim) for claim in claims}
        stream.patch(suspend=False)
        stream.wait_until_ready()
        load.begin("after the restore")
        load.wait_until_filled()
    load.judged()

    for partition, claim in enumerate(swapped):
        restore = restore_of(stream, partition)
        assert (restore.source, restore.name) == (
            RestoreSource.SNAPSHOT,
            f"{stream.name}-unswapped",
        )
        assert f"{claim} holds the store of another stream or partition" in restore.reason
        assert claim_of(stream, partition) != claim
    assert {claim: digests(stream, claim) for claim in swapped} == swapped
    stream.wait_for_events("VolumeRefused")
