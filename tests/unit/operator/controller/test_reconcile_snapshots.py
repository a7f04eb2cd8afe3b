"""Whole looks at a stream of which snapshots are made."""

from datetime import datetime, timedelta, tzinfo
from typing import Any

import pytest

from dedupe_operator import metrics
from dedupe_operator.controller.reconciler import RESYNC_SECONDS, ROLLOUT_POLL_SECONDS
from dedupe_operator.errors import KubernetesError, LostLeadership
from dedupe_operator.kubernetes.names import COPIES, Object
from dedupe_operator.worker_client import WorkerRefused
from tests.unit.operator.objects import NOW, STREAM
from tests.unit.operator.scene import CHECKPOINT, Scene

CSI: dict[str, Any] = {"spec.snapshots": {"provider": "CSI", "deadline": "1h"}}
S3: dict[str, Any] = {"spec.snapshots": {"provider": "S3", "s3": {"bucket": "ids"}}}
UPLOADED: Object = {
    "name": "s",
    "phase": "Completed",
    "handle": "shop/orders/0/snapshots/s.json",
    "totalBytes": 900,
    "newBytes": 300,
    "checkpoint": {
        "path": "x",
        "created": "2026-11-01T12:00:00Z",
        "inputOffset": 7,
        "outputPosition": 5,
        "keys": 5,
        "inputTopicId": "in",
        "outputTopicId": "out",
    },
}


@pytest.fixture(autouse=True)
def _stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still: a time of a schedule comes when a test says so."""
    _let_pass(monkeypatch, timedelta())


@pytest.fixture
def csi(scene: Scene) -> Scene:
    scene.cluster.add_stream(CSI)
    scene.rest()
    return scene


def entries(scene: Scene, name: str) -> list[Object]:
    found: list[Object] = scene.snapshot(name)["status"]["partitions"]
    return found


def phase(scene: Scene, name: str) -> str:
    return str(scene.snapshot(name)["status"]["phase"])


def test_a_snapshot_is_made_one_partition_after_another_and_carries_its_stamp(csi: Scene) -> None:
    csi.add_snapshot("s")
    csi.look()
    assert csi.cluster.names("VolumeSnapshot") == ["s-0"]
    assert [one["phase"] for one in entries(csi, "s")] == ["Running", "Pending"]
    csi.cluster.settle()
    csi.rest()
    assert csi.cluster.names("VolumeSnapshot") == ["s-0", "s-1"]
    status = csi.snapshot("s")["status"]
    assert (status["phase"], status["progress"], status["provider"]) == ("Completed", "2/2", "CSI")
    assert status["size"] == "2.86Mi"
    first = status["partitions"][0]
    assert (first["inputOffset"], first["outputPosition"], first["keys"]) == (70, 50, 50)
    assert (first["handle"], first["window"], first["volumeSize"]) == ("s-0", "1h", "20Gi")
    annotations = csi.cluster.one("VolumeSnapshot", "s-1")["metadata"]["annotations"]
    assert annotations["dedupestream.io/output-position"] == "50"
    assert {"SnapshotStarted", "SnapshotCompleted"} <= set(csi.cluster.told)
    assert csi.cluster.status["partitions"][1]["lastSnapshot"]["name"] == "s"


def test_the_intent_is_on_record_before_the_worker_is_asked(csi: Scene) -> None:
    csi.add_snapshot("s")
    csi.workers.answers["/checkpoint"] = WorkerRefused("Busy", "later")
    csi.look()
    assert [one["phase"] for one in entries(csi, "s")] == ["Running", "Running"]
    assert entries(csi, "s")[0]["error"] == "later"
    assert csi.cluster.names("VolumeSnapshot") == []
    assert csi.look() == ROLLOUT_POLL_SECONDS


def test_an_operator_killed_after_any_write_comes_to_the_same_end(csi: Scene) -> None:
    stopped = 0
    for write in range(1, 40):
        name = f"s{write}"
        csi.add_snapshot(name)
        with pytest.MonkeyPatch.context() as patch:
            stop_after(patch, csi, write)
            try:
                for _ in range(8):
                    csi.look()
                    csi.cluster.settle()
            except LostLeadership:
                stopped += 1
        csi.cluster.settle()
        csi.restart_operator()
        csi.rest()
        assert phase(csi, name) == "Completed"
        assert [one["handle"] for one in entries(csi, name)] == [f"{name}-0", f"{name}-1"]
    assert stopped >= 8


def stop_after(patch: pytest.MonkeyPatch, scene: Scene, writes: int) -> None:
    left = [writes]

    def counted(method: Any) -> Any:  # noqa: ANN401 # any method that writes
        def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401
            answer = method(*given, **named)
            left[0] -= 1
            if left[0] == 0:
                raise LostLeadership("killed")
            return answer

        return call

    for name in ("apply", "create", "delete", "patch_metadata"):
        patch.setattr(scene.cluster, name, counted(getattr(scene.cluster, name)))


def test_a_volume_snapshot_of_the_same_name_is_adopted_only_if_it_is_ours(csi: Scene) -> None:
    csi.cluster.add(
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            "metadata": {"name": "s-1", "namespace": "shop"},
        }
    )
    csi.add_snapshot("s")
    csi.rest()
    assert phase(csi, "s") == "Failed"
    assert [one["phase"] for one in entries(csi, "s")] == ["Completed", "Failed"]
    assert "does not belong to this snapshot" in entries(csi, "s")[1]["error"]
    assert csi.snapshot("s")["status"]["reason"] == "NameTaken"
    csi.cluster.delete_as_user("DedupeSnapshot", "s")
    csi.rest()
    assert csi.cluster.names("VolumeSnapshot") == ["s-1"]


def test_one_that_hangs_is_given_up_and_does_not_keep_the_next(
    csi: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    csi.cluster.hanging.add("s-0")
    csi.add_snapshot("s")
    for _ in range(3):
        csi.look()
        csi.cluster.settle()
    assert phase(csi, "s") == "Running"
    csi.cluster.add_stream({"spec.snapshots": {"provider": "CSI", "deadline": "10s"}})
    _let_pass(monkeypatch, timedelta(seconds=30))
    csi.look()
    assert phase(csi, "s") == "Failed"
    assert csi.snapshot("s")["status"]["reason"] == "DeadlineExceeded"
    assert "not complete in time" in csi.snapshot("s")["status"]["message"]
    assert csi.cluster.condition("SnapshotsHealthy")["reason"] in {
        "LastSnapshotFailed",
        "NoSnapshotYet",
    }
    csi.add_snapshot("t")
    csi.rest()
    assert phase(csi, "t") == "Completed"


def _let_pass(monkeypatch: pytest.MonkeyPatch, time: timedelta) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Later":
            return cls.fromtimestamp((NOW + time).timestamp(), tz)

    monkeypatch.setattr("dedupe_operator.controller.reconciler.datetime", Later)


def test_the_schedule_makes_one_for_all_the_times_that_were_missed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.cluster.add_stream({"spec.snapshots": {"provider": "CSI", "schedule": "*/5 * * * *"}})
    scene.rest()
    assert scene.cluster.names("DedupeSnapshot") == []
    _let_pass(monkeypatch, timedelta(days=2))
    scene.rest()
    assert len(scene.cluster.names("DedupeSnapshot")) == 1
    scene.restart_operator()
    scene.rest()
    assert len(scene.cluster.names("DedupeSnapshot")) == 1


def test_a_deleted_scheduled_snapshot_is_not_made_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.cluster.add_stream({"spec.snapshots": {"provider": "CSI", "schedule": "@hourly"}})
    scene.rest()
    _let_pass(monkeypatch, timedelta(hours=1))
    scene.rest()
    (name,) = scene.cluster.names("DedupeSnapshot")
    scene.cluster.delete_as_user("DedupeSnapshot", name)
    scene.rest()
    assert scene.cluster.names("DedupeSnapshot") == []


def test_a_refused_snapshot_stops_neither_the_others_nor_the_end_of_surplus(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.cluster.add_stream(
        {"spec.snapshots": {"provider": "CSI", "schedule": "@hourly", "keep": 1}}
    )
    scene.rest()
    for name in ("held", "stays"):
        scene.add_snapshot(name)
        scene.rest()
        scene.cluster.one("DedupeSnapshot", name)["metadata"]["finalizers"] = [COPIES]
    scene.cluster.delete_as_user("DedupeSnapshot", "held")
    _let_pass(monkeypatch, timedelta(hours=1))
    quota = "exceeded quota: small, requested: count/dedupesnapshots.dedupestream.io=1, used: 2"
    due = f"{STREAM}-{NOW + timedelta(hours=1):%Y%m%d-%H}00"
    scene.cluster.fails["DedupeSnapshot", due] = KubernetesError("QuotaExceeded", quota)
    scene.add_snapshot("by-hand")
    for _ in range(4):
        scene.look()
        scene.cluster.settle()
    assert scene.cluster.names("DedupeSnapshot") == ["by-hand", "stays"], "held may go"
    assert phase(scene, "by-hand") == "Completed"
    degraded = scene.cluster.condition("Degraded")
    assert degraded["reason"] == "QuotaExceeded"
    assert "spec.worker.resources" not in degraded["message"]
    scene.cluster.fails.clear()
    scene.rest()
    assert phase(scene, due) == "Completed", "it is made up for"


def test_surplus_is_deleted_with_its_copies_and_what_is_not_ours_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"provider": "CSI", "schedule": "@hourly", "keep": 2}
    scene.cluster.add_stream({"spec.snapshots": spec})
    scene.rest()
    scene.add_snapshot("by-hand")
    scene.cluster.add({"kind": "VolumeSnapshot", "metadata": {"name": "other", "labels": {}}})
    for hour in range(1, 6):
        _let_pass(monkeypatch, timedelta(hours=hour))
        scene.rest()
    names = scene.cluster.names("DedupeSnapshot")
    assert "by-hand" in names
    assert len(names) == 3
    copies = scene.cluster.names("VolumeSnapshot")
    assert copies == sorted(["other", *(f"{name}-{p}" for name in names for p in (0, 1))])
    assert "SnapshotPruned" in scene.cluster.told


def test_a_bucket_is_written_by_the_workers_and_cleared_before_the_snapshot_goes(
    scene: Scene,
) -> None:
    scene.cluster.add_stream(S3)
    scene.rest()
    scene.workers.answers["/snapshots"] = WorkerRefused("Busy", "later")
    scene.add_snapshot("s")
    scene.look()
    # Before the first upload: a snapshot deleted from here on is cleared away.
    assert scene.snapshot("s")["metadata"]["finalizers"] == ["dedupestream.io/copies"]
    scene.workers.answers["/snapshots"] = UPLOADED
    scene.rest()
    status = scene.snapshot("s")["status"]
    assert (status["phase"], status["partitions"][0]["uploadedBytes"]) == ("Completed", "300")
    assert status["partitions"][0]["handle"] == UPLOADED["handle"]
    assert ("apply", "DedupeSnapshot", "s") not in scene.cluster.writes
    scene.workers.answers["/snapshots/delete"] = WorkerRefused("Busy", "later")
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    scene.look()
    assert scene.cluster.names("DedupeSnapshot") == ["s"]
    scene.workers.answers["/snapshots/delete"] = {"deleted": ["s"], "objects": 1, "bytes": 1}
    scene.look()
    assert scene.cluster.names("DedupeSnapshot") == []
    asked = [(partition, path) for partition, path, _ in scene.workers.asked]
    assert (1, "/snapshots/delete") in asked


def test_an_upload_that_fails_is_begun_again_until_the_deadline(scene: Scene) -> None:
    scene.cluster.add_stream(S3)
    scene.rest()
    scene.workers.answers["/snapshots"] = {**UPLOADED, "phase": "Failed", "error": "denied"}
    scene.add_snapshot("s")
    scene.look()
    scene.look()
    assert entries(scene, "s")[0]["error"] == "denied"
    scene.workers.answers["/snapshots"] = UPLOADED
    scene.rest()
    assert phase(scene, "s") == "Completed"
    assert "error" not in entries(scene, "s")[0]


def test_a_stream_without_a_provider_says_so(scene: Scene) -> None:
    scene.rest()
    scene.add_snapshot("s")
    scene.rest()
    assert scene.snapshot("s")["status"]["reason"] == "NoProvider"


def test_a_partition_that_is_not_there_fails_the_snapshot(csi: Scene) -> None:
    csi.add_snapshot("s", partitions=[1, 9])
    csi.rest()
    assert csi.snapshot("s")["status"]["reason"] == "NoSuchPartition"


def test_more_partitions_than_an_object_holds_fail_the_snapshot(
    csi: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dedupe_operator.snapshots.runner._MOST_PARTITIONS", 1)
    csi.add_snapshot("s")
    csi.rest()
    assert csi.snapshot("s")["status"]["reason"] == "TooManyPartitions"
    assert "at most 1 partitions, and these are 2" in csi.snapshot("s")["status"]["message"]


def test_of_one_partition_only_that_is_copied(csi: Scene) -> None:
    csi.add_snapshot("s", partitions=[1])
    csi.rest()
    assert csi.cluster.names("VolumeSnapshot") == ["s-1"]
    assert phase(csi, "s") == "Completed"


def test_a_suspended_stream_waits(csi: Scene) -> None:
    csi.cluster.add_stream({**CSI, "spec.suspend": True})
    csi.add_snapshot("s")
    assert csi.rest() == RESYNC_SECONDS
    assert "status" not in csi.snapshot("s")
    csi.cluster.add_stream(CSI)
    csi.rest()
    assert phase(csi, "s") == "Completed"


def test_another_streams_snapshots_are_left_alone(csi: Scene) -> None:
    csi.add_snapshot("s", streamRef={"name": "payments"})
    csi.rest()
    assert "status" not in csi.snapshot("s")


def test_the_snapshots_of_a_stream_that_is_gone_are_let_go(scene: Scene) -> None:
    scene.cluster.add_stream(S3)
    scene.rest()
    scene.workers.answers["/snapshots"] = UPLOADED
    scene.add_snapshot("s")
    scene.rest()
    scene.cluster.remove("DedupeStream", STREAM)
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    assert scene.look() is None
    assert scene.cluster.names("DedupeSnapshot") == []


def test_a_partition_that_can_not_get_on_does_not_keep_the_others(csi: Scene) -> None:
    pod = csi.cluster.get_copy("Pod", "orders-0-0")
    csi.cluster.remove("Pod", "orders-0-0")
    csi.add_snapshot("s")
    for _ in range(3):
        csi.look()
        csi.cluster.one("VolumeSnapshot", "s-1")["status"] = {"readyToUse": True}
    assert [one["phase"] for one in entries(csi, "s")] == ["Running", "Completed"]
    assert "no worker" in entries(csi, "s")[0]["error"]
    csi.cluster.add(pod)
    csi.look()
    csi.cluster.settle()
    csi.rest()
    assert phase(csi, "s") == "Completed"


def test_a_snapshot_from_a_backup_is_held_and_let_go_whoever_set_its_finalizers(
    scene: Scene,
) -> None:
    scene.cluster.add_stream(S3)
    scene.rest()
    scene.workers.answers["/snapshots"] = UPLOADED
    scene.add_snapshot("s")
    scene.rest()
    metadata = scene.cluster.one("DedupeSnapshot", "s")["metadata"]
    metadata["finalizers"] = ["somebody/else"]
    scene.rest()
    assert metadata["finalizers"] == ["somebody/else", "dedupestream.io/copies"]
    scene.workers.answers["/snapshots/delete"] = {}
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    scene.look()
    assert metadata["finalizers"] == ["somebody/else"]


def test_a_stream_that_wants_no_snapshots_any_more_has_none_that_grow_old(csi: Scene) -> None:
    csi.add_snapshot("s")
    csi.rest()
    name = "dedupe_operator_snapshot_completed_timestamp_seconds"
    labels = {"namespace": "shop", "stream": STREAM}
    assert metrics.registry.get_sample_value(name, labels) is not None
    csi.cluster.add_stream()
    csi.rest()
    assert metrics.registry.get_sample_value(name, labels) is None


def on_nodes_of_their_own(scene: Scene) -> None:
    for number, name in enumerate(scene.cluster.names("Pod")):
        scene.cluster.one("Pod", name)["spec"]["nodeName"] = f"node-{number}"


def running(scene: Scene, name: str) -> list[int]:
    return [one["partition"] for one in entries(scene, name) if one["phase"] == "Running"]


@pytest.mark.parametrize(("parallelism", "expected"), [(None, 4), (2, 2)])
def test_several_partitions_are_copied_at_a_time(
    scene: Scene, parallelism: int | None, expected: int
) -> None:
    scene.kafka.partitions = 9
    bound = {"parallelism": parallelism} if parallelism else {}
    scene.cluster.add_stream({"spec.snapshots": {"provider": "CSI", **bound}})
    scene.rest()
    on_nodes_of_their_own(scene)
    scene.add_snapshot("s")
    seen: list[int] = []
    while not seen or phase(scene, "s") != "Completed":
        scene.look()
        seen.append(len(running(scene, "s")))
        scene.cluster.settle()
        on_nodes_of_their_own(scene)
    assert max(seen) == expected
    assert len(entries(scene, "s")) == 9


def test_one_node_copies_one_partition_at_a_time(scene: Scene) -> None:
    scene.kafka.partitions = 4
    scene.cluster.add_stream(CSI)
    scene.rest()
    scene.add_snapshot("s")
    scene.look()
    assert running(scene, "s") == [0]


def test_partitions_that_are_blocked_block_no_other_and_few_are_asked_in_a_pass(
    scene: Scene,
) -> None:
    scene.kafka.partitions = 20
    scene.cluster.add_stream(CSI)
    scene.rest()
    scene.workers.answers["/checkpoint"] = WorkerRefused("Busy", "later")
    scene.add_snapshot("s")
    for _ in range(3):
        scene.workers.asked.clear()
        scene.look()
        assert len(scene.workers.asked) <= 8
    scene.workers.answers["/checkpoint"] = CHECKPOINT
    scene.rest()
    assert phase(scene, "s") == "Completed"


def test_a_snapshot_of_one_partition_says_nothing_of_the_others(csi: Scene) -> None:
    csi.add_snapshot("one", partitions=[0])
    csi.rest()
    assert phase(csi, "one") == "Completed"
    assert csi.cluster.condition("SnapshotsHealthy")["status"] == "Unknown"
    assert "partition 1" in csi.cluster.condition("SnapshotsHealthy")["message"]
    csi.add_snapshot("all")
    csi.rest()
    assert csi.cluster.condition("SnapshotsHealthy")["status"] == "True"
