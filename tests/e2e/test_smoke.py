"""The promises on a real Kubernetes, one test for each, in four minutes.

One stream lives through all of it, as starting a stream is what costs time. Each test finds it ready and may run alone:
what a failed test leaves behind is not used again, the next one begins with another stream. The rest of the smoke is in
test_rights.py and test_manifests.py.
"""

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import ConditionStatus, RestoreSource
from tests.cluster.environment import Environment
from tests.e2e.support.copied import copied_stream
from tests.e2e.support.faults import Before, last_exit_of, pod_of
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.moves import (
    assert_moved_in_time,
    assert_told,
    node_of,
    taken_over_at,
    wait_until_moved,
)
from tests.e2e.support.nodes import nodes_of
from tests.e2e.support.plugin import Plugin
from tests.e2e.support.pods import PodsWatched
from tests.e2e.support.restores import assert_restored_under_load
from tests.e2e.support.scene import Scene
from tests.e2e.support.snapshots import VOLUME_SNAPSHOTS, Snapshots, partition_status
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import CLAIMS, claim_of
from tests.e2e.support.zombie import Zombie
from tests.faults.seed import SEED
from tests.support.traffic.traffic import order, retries

# It breaks a node, on which the streams of other tests may be.
pytestmark = [pytest.mark.proof, pytest.mark.alone]

PARTITIONS = 3
COUNT = 1_000
NOT_READY_AFTER = timedelta(seconds=5)
CHILDREN = "statefulsets,pods,services,configmaps,secrets,serviceaccounts,poddisruptionbudgets"
NEW_REQUESTS = {"cpu": "20m", "memory": "192Mi"}
NO_IMAGE = "dedupestream/worker:never-built"


class Life:
    """The stream that lives now; a test that fails ends its life."""

    def __init__(self, place: Scene) -> None:
        self._place = place
        self._stream: ClusterStream | None = None
        self._is_hopeless = False

    def stream(self) -> ClusterStream:
        """Return it, ready. Fails at once after one that did not become ready: not each test waits for that."""
        if self._is_hopeless:
            pytest.fail(
                "not tried: the stream of an earlier test did not become ready", pytrace=False
            )
        self._is_hopeless = True
        if self._stream is None:
            self._stream = copied_stream(
                self._place,
                "orders",
                partitions=PARTITIONS,
                failover={"nodeNotReadyAfter": f"{NOT_READY_AFTER.total_seconds():.0f}s"},
                storage={"reclaimPolicy": "Retain"},
            )
            self._stream.apply()
        self._stream.wait_until_ready()
        self._is_hopeless = False
        return self._stream

    def end(self) -> None:
        """Have the next test begin with another stream."""
        self._stream = None


@pytest.fixture(scope="module")
def life(place: Scene) -> Life:
    return Life(place)


@pytest.fixture
def stream(life: Life, request: pytest.FixtureRequest) -> Iterator[ClusterStream]:
    """The stream of all tests, ready."""
    failed_before = request.session.testsfailed
    yield life.stream()
    if request.session.testsfailed > failed_before:
        life.end()


def test_a_stream_that_is_applied_passes_each_message_once(stream: ClusterStream) -> None:
    stream.send(retries(SEED, COUNT, partitions=PARTITIONS))

    verdict = stream.judged()

    stream.wait_until(
        lambda: stream.status().partitions_ready == f"{PARTITIONS}/{PARTITIONS}", "all are ready"
    )
    assert [one.partition for one in stream.status().partitions] == list(range(PARTITIONS))
    assert stream.duplicates() == COUNT - verdict.expected


def test_a_deleted_pods_worker_goes_on_where_it_was(stream: ClusterStream) -> None:
    before = Before.of(stream)
    with LiveLoad(stream, SEED + 10) as load:
        load.wait_until_filled()
        began = time.monotonic()
        stream.kubectl("delete", "pod", stream.pod_name(0), "--wait=false")
        before.wait_until_replaced(0)
        print(f"pod deleted: ready {time.monotonic() - began:.1f} s after")
        load.begin("it is back")
        load.wait_until_filled()
    before.assert_same_volumes()
    assert stream.starts()[0] == "Tail"
    now = stream.uids("pods")
    assert [name for name in now if now[name] != before.pods[name]] == [f"Pod/{stream.pod_name(0)}"]
    load.judged()


def test_a_change_rolls_one_partition_at_a_time_each_ready_before_the_next(
    release: Environment, stream: ClusterStream
) -> None:
    with PodsWatched(release, stream) as watched:
        stream.patch(worker={"resources": {"requests": NEW_REQUESTS}})
        stream.wait_until_rolled_out()

    assert watched.replaced == list(range(PARTITIONS))
    assert watched.most_unready == 1
    containers = [pod["spec"]["containers"][0] for pod in stream.children("pods")]
    assert [one["resources"]["requests"] for one in containers] == [NEW_REQUESTS] * PARTITIONS
    stream.send(retries(SEED + 20, COUNT, partitions=PARTITIONS))
    stream.judged()


def test_a_bad_image_stops_at_the_first_partition_and_is_mended_without_a_hand(
    stream: ClusterStream,
) -> None:
    others = {stream.pod_name(partition) for partition in range(1, PARTITIONS)}
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stream.children("pods")}

    stream.patch(worker={"image": NO_IMAGE})
    told = stream.wait_for_condition("Ready", ConditionStatus.FALSE, reason="ImagePullFailed")
    held = stream.wait_for_condition("Progressing", ConditionStatus.FALSE)

    assert NO_IMAGE in told.message
    assert (held.reason, f"partitions 1-{PARTITIONS - 1}" in held.message) == (
        "RolloutHeldBack",
        True,
    )
    stream.send(order(SEED + 30, number, partitions=PARTITIONS) for number in range(COUNT))
    for partition in range(1, PARTITIONS):
        wait_until_partition_passed(stream, partition)
    stream.wait_until(
        lambda: [one.ready for one in stream.status().partitions] == [False, True, True],
        "the other partitions are ready",
    )

    stream.patch(worker={"image": None})
    stream.wait_until_rolled_out()

    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stream.children("pods")}
    assert {name for name in after if after[name] == before[name]} == others
    stream.judged()


def wait_until_partition_passed(stream: ClusterStream, partition: int) -> None:
    end = stream.ends()[partition]
    stream.wait_until(
        lambda: stream.progress().get(partition, 0) >= end,
        f"offset {end} of partition {partition} is committed",
    )


def test_a_snapshot_asked_for_has_a_usable_stamped_copy_of_each_partition(
    release: Environment, stream: ClusterStream
) -> None:
    stream.send(retries(SEED + 40, COUNT, partitions=PARTITIONS))
    stream.wait_until_passed()
    passed = {record.partition: record.offset + 1 for record in stream.clean()}
    name = f"{stream.name}-asked"

    said = Plugin(release, stream.namespace)("snapshot", stream.name, "--name", name, "--wait")

    made = Snapshots(stream).status(name)
    assert name in said
    assert (made.phase, made.provider, made.progress) == (
        SnapshotPhase.COMPLETED,
        SnapshotProvider.CSI,
        f"{PARTITIONS}/{PARTITIONS}",
    )
    for partition, entry in enumerate(made.partitions):
        assert (entry.partition, entry.phase) == (partition, SnapshotPhase.COMPLETED)
        assert entry.output_position == passed[partition]
        assert entry.input_offset == stream.committed()[partition]
        assert (entry.keys or 0) > 0
        assert None not in (entry.window, entry.bytes, entry.started, entry.completed)
        copy = stream.kubectl.get(VOLUME_SNAPSHOTS, str(entry.handle))
        assert copy["status"]["readyToUse"]
        assert copy["spec"]["source"]["persistentVolumeClaimName"] == claim_of(stream, partition)
        stamp = copy["metadata"]["annotations"]
        assert stamp[f"{GROUP}/output-position"] == str(entry.output_position)
        assert stamp[f"{GROUP}/input-offset"] == str(entry.input_offset)
        assert stamp[f"{GROUP}/output-topic-id"] == entry.output_topic_id
    # The look at the stream that finds it complete has seen the partitions before that.
    stream.wait_until(
        lambda: (
            (last := partition_status(stream, 1).last_snapshot) is not None and last.name == name
        ),
        "its status names the snapshot",
    )
    stream.wait_for_condition("SnapshotsHealthy", reason="UpToDate")
    stream.wait_for_events("SnapshotStarted", "SnapshotCompleted")


def test_a_lost_volume_comes_back_from_the_newest_snapshot_and_no_repeat_of_any_time_passes(
    stream: ClusterStream,
) -> None:
    assert_restored_under_load(
        stream, SEED + 50, f"{stream.name}-newest", RestoreSource.SNAPSHOT, "StoreFromSnapshot"
    )


def test_a_worker_on_a_node_that_is_cut_off_is_fenced_and_writes_no_more(
    release: Environment, stream: ClusterStream
) -> None:
    nodes = nodes_of(release)
    # For a copy each worker flushes its store: not even a power loss would take away what it holds.
    Snapshots(stream).make(f"{stream.name}-flushed")
    before = Before.of(stream)
    places = [node_of(stream, each) for each in range(PARTITIONS)]
    victim = nodes.away_from_operator(places)
    hit = [each for each, place in enumerate(places) if place == victim]
    partition = hit[0]

    with LiveLoad(stream, SEED + 60) as load:
        load.wait_until_filled()
        pods = {each: pod_of(stream, each) for each in hit}
        zombie = Zombie(nodes, pods[partition])
        began = time.monotonic()
        with nodes.cut_off(victim):
            since = nodes.wait_until_not_ready(victim)
            load.begin("it is cut off")
            assert zombie.runs()
            stream.wait_until_passed()  # it works on, as nobody else does yet
            for each, pod in pods.items():
                wait_until_moved(stream, each, pod["metadata"]["uid"], victim)
            print(f"node cut off: {len(hit)} moved, ready {time.monotonic() - began:.1f} s after")
            for each in hit:
                assert_moved_in_time(stream, each, since, victim, not_before=NOT_READY_AFTER)
            assert_told(stream, victim)
            load.begin("another has taken over")
            zombie.wait_until_standing_by()  # its kubelet has started it again
            load.wait_until_filled()
            stream.wait_until_passed()
            assert zombie.last_write() <= taken_over_at(stream, partition).timestamp()
            # On a starved node a probe may have ended it once.
            assert last_exit_of(pod_of(stream, partition)) != ExitCode.FENCED, (
                "the old worker has fenced the new one"
            )
            before.assert_same_volumes()
            assert [stream.starts()[each] for each in hit] == ["Tail"] * len(hit)
        stream.wait_until(lambda: not zombie.runs(), "its node has ended the old worker")
        load.begin("the node is back")
        load.wait_until_filled()
    load.judged()
    stream.wait_until_ready()


def test_a_stream_made_again_on_kept_volumes_passes_nothing_twice(stream: ClusterStream) -> None:
    stream.send(retries(SEED + 70, COUNT, partitions=PARTITIONS))
    stream.wait_until_passed()
    kept, first = stream.uids(CLAIMS), stream.get()["metadata"]["uid"]

    stream.delete()
    stream.wait_until(lambda: not stream.children(CHILDREN), "all but its volumes is gone")
    assert stream.uids(CLAIMS) == kept
    stream.send(retries(SEED + 70, COUNT, partitions=PARTITIONS))
    stream.apply()
    stream.wait_until_ready()

    assert stream.get()["metadata"]["uid"] != first
    assert stream.uids(CLAIMS) == kept
    found = [one.restore and one.restore.source for one in stream.status().partitions]
    assert found == [RestoreSource.VOLUME] * PARTITIONS
    stream.judged()
    assert stream.starts() == ["Tail"] * PARTITIONS
    assert stream.duplicates() == COUNT
