"""Whole looks at a stream whose volumes are lost: down the restore ladder, rung by rung."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dedupe_crds.annotations import RestoreRequest, restores_text
from dedupe_crds.status.worker import DownloadPhase, DownloadStatus, ReconcileStatus
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.offsets import PartitionState
from dedupe_operator import metrics
from dedupe_operator.decide import restore_slots
from dedupe_operator.errors import LostLeadership
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import EVENTS, Resource
from tests.unit.operator.controller.test_reconcile_snapshots import CSI, S3, UPLOADED, stop_after
from tests.unit.operator.objects import NAMESPACE, NOW, STREAM, ended, worker_status
from tests.unit.operator.scene import KEY, Scene

CLAIM = "PersistentVolumeClaim"
RESTORE = "dedupestream.io/restore"
LATER = NOW + timedelta(days=400)


@pytest.fixture
def copied(scene: Scene) -> Scene:
    """A stream with two complete snapshots, `old` and `new`."""
    scene.cluster.add_stream(CSI)
    scene.rest()
    for name in ("old", "new"):
        scene.add_snapshot(name)
        scene.rest()
    _date(scene, "old", "2026-01-01T00:00:00Z")
    return scene


def _date(scene: Scene, name: str, completed: str) -> None:
    for entry in scene.cluster.one("DedupeSnapshot", name)["status"]["partitions"]:
        entry["completed"] = completed


def partition(scene: Scene, number: int = 0) -> Object:
    found: Object = scene.cluster.status["partitions"][number]
    return found


def restore(scene: Scene, number: int = 0) -> tuple[str, str | None]:
    found = partition(scene, number)["restore"]
    return found["source"], found.get("name")


def lose(scene: Scene, name: str = "orders-0-1") -> None:
    scene.cluster.remove(CLAIM, name)


def counted(source: str) -> float:
    labels = {"namespace": "shop", "stream": "orders", "source": source}
    return metrics.registry.get_sample_value("dedupe_operator_restores_total", labels) or 0.0


def test_only_a_store_that_replaces_one_counts_as_restored(scene: Scene) -> None:
    scene.kafka.created = False
    first = counted("OutputTopic")
    scene.cluster.add_stream()
    scene.rest()
    assert restore(scene)[0] == "OutputTopic"
    assert counted("OutputTopic") == first
    lose(scene)
    scene.rest()
    assert restore(scene)[0] == "OutputTopic"
    assert counted("OutputTopic") == first + 1


def test_a_lost_volume_comes_from_the_newest_snapshot_and_the_others_stay(copied: Scene) -> None:
    lose(copied)
    copied.rest()
    claim = copied.cluster.one(CLAIM, "orders-0-2")
    assert claim["spec"]["dataSource"] == {
        "apiGroup": "snapshot.storage.k8s.io",
        "kind": "VolumeSnapshot",
        "name": "new-0",
    }
    assert restore(copied) == ("Snapshot", "new")
    assert "orders-0-1 was deleted" in partition(copied)["restore"]["reason"]
    assert copied.mounted_claim("orders-0") == "orders-0-2"
    assert copied.mounted_claim("orders-1") == "orders-1-1"
    assert "StoreFromSnapshot" in copied.cluster.told
    copied.rest()
    assert copied.cluster.writes == []


def test_a_volume_that_kubernetes_calls_lost_is_replaced(copied: Scene) -> None:
    copied.cluster.one(CLAIM, "orders-0-1")["status"] = {"phase": "Lost"}
    copied.look()
    assert restore(copied) == ("Snapshot", "new")
    assert "lost its volume" in partition(copied)["restore"]["reason"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda scene: scene.cluster.remove("VolumeSnapshot", "new-0"), "its copy new-0 is gone"),
        (lambda scene: _position(scene, "new", 2000), "ahead of the output topic"),
        (lambda scene: _topic(scene, "new"), "the output topic was deleted"),
    ],
)
def test_an_older_snapshot_is_taken_where_the_newest_is_refused(
    copied: Scene, spoil: Callable[[Scene], None], why: str
) -> None:
    spoil(copied)
    lose(copied)
    copied.rest()
    assert restore(copied) == ("Snapshot", "old")
    (refused,) = partition(copied)["restore"]["refused"]
    assert refused.startswith("new: ")
    assert why in refused
    assert "SnapshotRefused" in copied.cluster.told


def _position(scene: Scene, name: str, position: int) -> None:
    scene.cluster.one("DedupeSnapshot", name)["status"]["partitions"][0]["outputPosition"] = (
        position
    )


def _topic(scene: Scene, name: str) -> None:
    scene.cluster.one("DedupeSnapshot", name)["status"]["partitions"][0]["outputTopicId"] = "other"


def test_copies_behind_the_topics_retention_are_of_no_use(copied: Scene) -> None:
    copied.kafka.state = PartitionState(
        input_topic_id="in", output_topic_id="out", low=51, end=1000
    )
    lose(copied)
    copied.rest()
    assert restore(copied) == ("OutputTopic", None)
    assert len(partition(copied)["restore"]["refused"]) == 2


def test_any_number_of_copies_may_be_refused(copied: Scene) -> None:
    good = copied.snapshot("new")
    for number in range(120):
        bad = {**good, "metadata": {**good["metadata"], "name": f"bad-{number}"}}
        del bad["metadata"]["uid"]
        copied.cluster.add(bad)
        _topic(copied, f"bad-{number}")
    for name in ("new", "old"):
        _topic(copied, name)
    lose(copied)
    copied.rest()
    assert restore(copied) == ("OutputTopic", None)
    refused = partition(copied)["restore"]["refused"]
    assert (len(refused), refused[-1]) == (11, "and 112 more")
    assert copied.cluster.condition("Ready")["status"] == "True"


def test_a_source_that_vanishes_midway_is_followed_by_the_next(copied: Scene) -> None:
    lose(copied)
    copied.look()
    assert restore(copied) == ("Snapshot", "new")
    copied.cluster.remove("VolumeSnapshot", "new-0")
    copied.rest()
    assert restore(copied) == ("Snapshot", "old")
    assert copied.cluster.one(CLAIM, "orders-0-3")["spec"]["dataSource"]["name"] == "old-0"
    assert copied.mounted_claim("orders-0") == "orders-0-3"
    assert "RestoreFailed" in copied.cluster.told


def test_nothing_is_chosen_while_kafka_does_not_answer(copied: Scene) -> None:
    lose(copied)
    copied.kafka.fails = BrokerUnavailable("no answer")
    copied.look()
    assert copied.cluster.names(CLAIM) == ["orders-1-1"]
    assert partition(copied)["persistentVolumeClaim"] == "orders-0-1"
    copied.kafka.fails = None
    copied.rest()
    assert restore(copied) == ("Snapshot", "new")


def test_a_volume_that_holds_anothers_store_is_left_and_replaced(copied: Scene) -> None:
    pod = copied.cluster.one("Pod", "orders-0-0")
    pod["status"]["conditions"][0]["status"] = "False"
    container = pod["status"]["containerStatuses"][0]
    container |= {**ended(65), "ready": False}
    copied.rest()
    assert copied.cluster.names(CLAIM) == ["orders-0-1", "orders-0-2", "orders-1-1"]
    assert restore(copied) == ("Snapshot", "new")
    assert "holds the store of another" in partition(copied)["restore"]["reason"]
    assert "VolumeRefused" in copied.cluster.told


def ask(scene: Scene, source: str, request: str = "1", number: int = 0) -> None:
    text = f'{{"request": "{request}", "partition": {number}, "source": "{source}"}}'
    scene.cluster.add_stream({**CSI, "metadata.annotations": {RESTORE: text}})


def test_a_restore_that_was_asked_for_is_done_once(copied: Scene) -> None:
    ask(copied, "old")
    copied.rest()
    assert restore(copied) == ("Snapshot", "old")
    assert partition(copied)["restore"]["request"] == "1"
    assert copied.cluster.names(CLAIM) == ["orders-0-1", "orders-0-2", "orders-1-1"]
    lose(copied, "orders-0-2")
    copied.rest()
    assert (restore(copied), partition(copied)["persistentVolumeClaim"]) == (
        ("Snapshot", "new"),
        "orders-0-3",
    )
    copied.restart_operator()
    copied.rest()
    assert copied.mounted_claim("orders-0") == "orders-0-3"


def queue(scene: Scene, *requests: RestoreRequest) -> None:
    text = restores_text(requests)
    scene.cluster.add_stream({**CSI, "metadata.annotations": {RESTORE: text}})


def rebuild(request: str, number: int) -> RestoreRequest:
    return RestoreRequest(request=request, partition=number, source="OutputTopic")


def test_two_requests_are_both_done(copied: Scene) -> None:
    best = RestoreRequest(request="2", partition=1, source="BestAvailable")
    queue(copied, rebuild("1", 0), best)
    copied.rest()
    assert (restore(copied, 0), restore(copied, 1)) == (("OutputTopic", None), ("Snapshot", "new"))
    assert [partition(copied, number)["restore"]["request"] for number in (0, 1)] == ["1", "2"]


def test_more_requests_than_may_run_side_by_side_wait_for_their_turn(
    copied: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore_slots, "_AT_ONCE", 1)
    queue(copied, rebuild("1", 0), rebuild("1", 1))
    for _ in range(3):
        copied.look()  # the worker of the new volume does not start yet
    claimed = [partition(copied, number)["persistentVolumeClaim"] for number in (0, 1)]
    assert claimed == ["orders-0-2", "orders-1-1"]
    copied.cluster.settle()
    copied.rest()
    claimed = [partition(copied, number)["persistentVolumeClaim"] for number in (0, 1)]
    assert claimed == ["orders-0-2", "orders-1-2"]


def test_the_best_available_source_is_the_output_topic_without_a_copy(scene: Scene) -> None:
    scene.cluster.add_stream(CSI)
    scene.rest()
    queue(scene, RestoreRequest(request="1", partition=0, source="BestAvailable"))
    scene.rest()
    assert restore(scene) == ("OutputTopic", None)
    assert (
        "refused" not in partition(scene)["restore"] or not partition(scene)["restore"]["refused"]
    )


def test_requests_for_one_partition_are_answered_in_order_and_none_is_repeated(
    copied: Scene,
) -> None:
    queue(copied, rebuild("1", 0), RestoreRequest(request="2", partition=0, source="old"))
    copied.rest()
    assert restore(copied) == ("Snapshot", "old")
    assert partition(copied)["persistentVolumeClaim"] == "orders-0-3"
    # Of the first request no claim and no status tells any more.
    copied.cluster.remove(CLAIM, "orders-0-2")
    copied.restart_operator()
    copied.rest()
    assert partition(copied)["persistentVolumeClaim"] == "orders-0-3"


def test_none_of_a_queue_is_repeated_when_the_status_is_lost(copied: Scene) -> None:
    queue(copied, rebuild(REQUEST, 0), rebuild(REQUEST, 1))
    copied.rest()
    del copied.cluster.one("DedupeStream", STREAM)["status"]
    copied.restart_operator()
    copied.rest()
    for number in (0, 1):
        assert copied.mounted_claim(f"orders-{number}") == f"orders-{number}-2"
        assert partition(copied, number)["restore"]["request"] == REQUEST


def test_each_of_a_queue_that_is_older_than_its_stream_is_refused(scene: Scene) -> None:
    created = {"metadata.creationTimestamp": "2026-11-02T00:00:00Z"}
    text = restores_text([rebuild(REQUEST, 0), rebuild(REQUEST, 1)])
    scene.cluster.add_stream({**CSI, **created, "metadata.annotations": {RESTORE: text}})
    scene.rest()
    for number in (0, 1):
        assert scene.mounted_claim(f"orders-{number}") == f"orders-{number}-1"
        assert "older than the stream" in partition(scene, number)["restore"]["refused"][0]


def test_a_rebuild_that_was_asked_for_begins_empty(copied: Scene) -> None:
    ask(copied, "OutputTopic", number=1)
    copied.rest()
    assert restore(copied, 1) == ("OutputTopic", None)
    assert "dataSource" not in copied.cluster.one(CLAIM, "orders-1-2")["spec"]


@pytest.mark.parametrize(
    ("source", "why"), [("nowhere", "no such DedupeSnapshot"), ("new", "is gone")]
)
def test_a_restore_that_can_not_be_is_refused_and_the_volume_kept(
    copied: Scene, source: str, why: str
) -> None:
    copied.cluster.remove("VolumeSnapshot", "new-0")
    ask(copied, source)
    copied.rest()
    assert partition(copied)["persistentVolumeClaim"] == "orders-0-1"
    answer = partition(copied)["restore"]
    assert (answer["request"], answer["source"]) == ("1", "Nothing")
    assert why in answer["refused"][0]
    assert copied.cluster.told.count("SnapshotRefused") == 1


def test_an_operator_killed_after_any_write_of_a_restore_comes_to_the_same_end(
    copied: Scene,
) -> None:
    stopped = 0
    for lost, write in enumerate(range(1, 12), 1):
        lose(copied, f"orders-0-{lost}")
        with pytest.MonkeyPatch.context() as patch:
            stop_after(patch, copied, write)
            try:
                copied.rest()
            except LostLeadership:
                stopped += 1
        copied.restart_operator()
        copied.rest()
        assert partition(copied)["persistentVolumeClaim"] == f"orders-0-{lost + 1}"
        assert copied.mounted_claim("orders-0") == f"orders-0-{lost + 1}"
        assert restore(copied) == ("Snapshot", "new")
    assert stopped >= 3


@pytest.fixture
def bucket(scene: Scene) -> Scene:
    """A stream with two complete snapshots in a bucket, `old` and `new`."""
    scene.cluster.add_stream(S3)
    scene.rest()
    for name in ("old", "new"):
        scene.workers.answers["/snapshots"] = {**UPLOADED, "name": name}
        scene.add_snapshot(name)
        scene.rest()
    _date(scene, "old", "2026-01-01T00:00:00Z")
    return scene


def arguments(scene: Scene) -> list[str]:
    spec = scene.cluster.one("StatefulSet", "orders-0")["spec"]["template"]["spec"]
    return [one for one in spec["containers"][0]["args"] if "restore" in one]


def test_an_empty_volume_is_filled_from_the_bucket_by_its_worker(bucket: Scene) -> None:
    lose(bucket)
    bucket.rest()
    assert restore(bucket) == ("Checkpoint", "new")
    assert arguments(bucket) == ["--restore-from=new"]
    assert "dataSource" not in bucket.cluster.one(CLAIM, "orders-0-2")["spec"]


def test_a_worker_that_can_not_fill_it_is_told_the_next_source_on_the_same_volume(
    bucket: Scene,
) -> None:
    lose(bucket)
    bucket.rest()
    for name, following in (("new", "old"), ("old", None)):
        download = DownloadStatus(name=name, phase=DownloadPhase.FAILED, error="wrong checksum")
        bucket.workers.say[0] = worker_status().model_copy(update={"download": download})
        bucket.rest()
        source = "Checkpoint" if following else "OutputTopic"
        assert restore(bucket) == (source, following)
        assert partition(bucket)["persistentVolumeClaim"] == "orders-0-2"
        assert arguments(bucket) == ([f"--restore-from={following}"] if following else [])
    assert partition(bucket)["restore"]["refused"] == ["new: wrong checksum", "old: wrong checksum"]


def test_how_far_a_restore_is_shows_in_the_status(bucket: Scene) -> None:
    lose(bucket)
    bucket.rest()
    download = DownloadStatus(
        name="new", phase=DownloadPhase.RUNNING, bytes=250, total_bytes=1000, seconds=5.0
    )
    bucket.workers.say[0] = worker_status().model_copy(update={"download": download})
    bucket.look()
    shown = partition(bucket)["restoring"]
    assert shown == {"name": "new", "bytes": "250", "totalBytes": "1k", "remaining": "15s"}


def test_a_volume_is_no_smaller_than_what_it_is_made_from(copied: Scene) -> None:
    entry = copied.cluster.one("DedupeSnapshot", "new")["status"]["partitions"][0]
    entry["volumeSize"] = "40Gi"
    lose(copied)
    copied.rest()
    requests = copied.cluster.one(CLAIM, "orders-0-2")["spec"]["resources"]["requests"]
    assert requests["storage"] == "40Gi"
    copied.rest()
    assert copied.cluster.writes == []


def requested(made: str) -> dict[str, Any]:
    """A stream with a request of this time to rebuild partition 0."""
    request = RestoreRequest(request=made, partition=0, source="OutputTopic")
    return {**CSI, "metadata.annotations": {RESTORE: request.model_dump_json(by_alias=True)}}


REQUEST = "2026-11-01T12:00:00.000+00:00"


def test_a_request_is_not_repeated_when_the_status_is_lost(scene: Scene) -> None:
    scene.cluster.add_stream(CSI)
    scene.rest()
    scene.cluster.add_stream(requested(REQUEST))
    scene.rest()
    assert scene.mounted_claim("orders-0") == "orders-0-2"
    del scene.cluster.one("DedupeStream", STREAM)["status"]
    scene.restart_operator()
    scene.rest()
    assert scene.mounted_claim("orders-0") == "orders-0-2"
    assert CLAIM in {kind for kind, _ in scene.cluster.objects}
    assert "orders-0-3" not in scene.cluster.names(CLAIM)
    assert partition(scene)["restore"]["request"] == REQUEST
    again = "2026-11-01T13:00:00.000+00:00"
    scene.cluster.add_stream(requested(again))
    scene.rest()
    assert scene.mounted_claim("orders-0") == "orders-0-3"


def test_a_request_of_a_stream_that_was_replaced_is_refused_once(scene: Scene) -> None:
    created = {"metadata.creationTimestamp": "2026-11-02T00:00:00Z"}
    scene.cluster.add_stream({**requested(REQUEST), **created})
    scene.rest()
    assert scene.mounted_claim("orders-0") == "orders-0-1"
    assert "older than the stream" in partition(scene)["restore"]["refused"][0]
    assert scene.cluster.told.count("SnapshotRefused") == 1


def test_a_refused_request_is_not_done_later_when_the_status_is_lost(copied: Scene) -> None:
    request = RestoreRequest(request=REQUEST, partition=0, source="missing")
    copied.cluster.add_stream(
        {**CSI, "metadata.annotations": {RESTORE: request.model_dump_json(by_alias=True)}}
    )
    copied.rest()
    assert "no such DedupeSnapshot" in partition(copied)["restore"]["refused"][0]
    del copied.cluster.one("DedupeStream", STREAM)["status"]
    copied.add_snapshot("missing")
    copied.restart_operator()
    copied.rest()
    assert copied.mounted_claim("orders-0") == "orders-0-1"


def damaged(scene: Scene, *, truncated: bool = True, started: datetime = LATER) -> None:
    """The worker of partition 0 found its store damaged when it started, and rebuilds it."""
    status = worker_status()
    found = ReconcileStatus(reason="StoreCorrupt", records=0, remaining=9, seconds=1.0)
    window = status.window and status.window.model_copy(update={"truncated": truncated})
    scene.workers.say[0] = status.model_copy(
        update={"reconcile": found, "window": window, "started_at": started}
    )


def test_a_damaged_store_is_restored_from_a_copy_if_the_output_has_less(copied: Scene) -> None:
    damaged(copied)
    copied.look()
    copied.workers.say.clear()  # the worker on the new volume finds no damage
    copied.cluster.settle()
    copied.rest()
    assert restore(copied) == ("Snapshot", "new")
    assert partition(copied)["persistentVolumeClaim"] == "orders-0-2"
    assert "damaged" in partition(copied)["restore"]["reason"]
    assert {"VolumeRefused", "StoreFromSnapshot"} <= set(copied.cluster.told)
    assert "orders-0-1" in copied.cluster.names(CLAIM)


def test_copies_that_are_damaged_too_are_taken_once_each(copied: Scene) -> None:
    for source, name in (("Snapshot", "new"), ("Snapshot", "old")):
        damaged(copied)
        copied.look()
        copied.workers.say.clear()
        copied.cluster.settle()
        copied.rest()
        assert restore(copied) == (source, name)
    damaged(copied)
    copied.rest()  # none is left: it stays, and is rebuilt in place
    assert restore(copied) == ("Snapshot", "old")
    assert partition(copied)["persistentVolumeClaim"] == "orders-0-3"


def test_a_damaged_store_whose_output_has_the_window_stays(copied: Scene) -> None:
    damaged(copied, truncated=False)
    copied.rest()
    assert partition(copied)["persistentVolumeClaim"] == "orders-0-1"


def test_a_copy_of_the_rebuilt_store_is_none_to_restore_from(copied: Scene) -> None:
    damaged(copied, started=NOW - timedelta(days=400))
    copied.rest()
    assert partition(copied)["persistentVolumeClaim"] == "orders-0-1"


# As drivers have it whose csi-provisioner is of version 5 or older.
PREFIX = 'failed to provision volume with StorageClass "quota-fast": '


def provisioning_failed(scene: Scene, message: str, minutes: float) -> None:
    """The driver has failed for so many minutes, and has just tried again."""
    now = datetime.now(UTC)
    claim = scene.cluster.one(CLAIM, "orders-0-2")
    claim["status"] = {"phase": "Pending"}
    claim["spec"].pop("volumeName", None)
    scene.cluster.add(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"failed-{len(scene.cluster.objects)}", "namespace": NAMESPACE},
            "involvedObject": {"uid": claim["metadata"]["uid"]},
            "reason": "ProvisioningFailed",
            "message": message,
            "firstTimestamp": (now - timedelta(minutes=minutes)).isoformat(),
            "lastTimestamp": now.isoformat(),
        }
    )


@pytest.mark.parametrize(
    ("message", "minutes", "source"),
    [
        ("rpc error: code = NotFound desc = snapshot 7 not found", 5, "old"),
        ("rpc error: code = NotFound desc = snapshot 7 not found", 1, "new"),
        ("rpc error: code = ResourceExhausted desc = no room", 5, "new"),
        (f"{PREFIX}rpc error: code = NotFound desc = snapshot 7 not found", 5, "old"),
        (f"{PREFIX}rpc error: code = ResourceExhausted desc = no room", 5, "new"),
        ('storageclass.storage.k8s.io "quota-fast" not found', 5, "new"),
    ],
)
def test_a_ready_copy_of_which_no_volume_can_be_made_is_skipped_after_a_while(
    copied: Scene, message: str, minutes: float, source: str
) -> None:
    lose(copied)
    copied.look()
    provisioning_failed(copied, message, minutes)
    copied.look()
    copied.look()
    assert restore(copied) == ("Snapshot", source)
    if source == "old":
        assert partition(copied)["restore"]["refused"][0].startswith("new: no volume can be made")
        assert "RestoreFailed" in copied.cluster.told


def test_events_are_read_once_in_half_a_minute_while_a_volume_is_made(
    copied: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(copied)
    copied.look()
    provisioning_failed(copied, "rpc error: code = ResourceExhausted desc = no room", 5)
    find, reads = copied.cluster.find, []

    def counting(resource: Resource, namespace: str | None, **selectors: Any) -> list[Object]:  # noqa: ANN401 # as the API's
        if resource is EVENTS:
            reads.append(copied.clock.now)
        return find(resource, namespace, **selectors)

    monkeypatch.setattr(copied.cluster, "find", counting)
    for _ in range(10):
        copied.clock.now += 9.0
        copied.reconciler.reconcile(KEY)
    assert 1 < len(reads) < 5, reads


@pytest.mark.parametrize("source", ["dataSource", "volumeName"])
def test_a_restored_volume_that_is_reattached_keeps_its_source(copied: Scene, source: str) -> None:
    lose(copied)
    copied.rest()
    spec = copied.cluster.one(CLAIM, "orders-0-2")["spec"]
    if source == "volumeName":
        applied = copied.cluster._applied[CLAIM, "orders-0-2", ""]["spec"]  # noqa: SLF001 # as if by an EBS snapshot
        del spec["dataSource"], applied["dataSource"]
        applied["volumeName"] = spec["volumeName"]
    before = spec[source]
    copied.cluster.status.clear()  # as after a deletion and creation of the stream
    copied.rest()
    assert restore(copied)[0] == "Volume"
    assert copied.cluster.one(CLAIM, "orders-0-2")["spec"][source] == before
