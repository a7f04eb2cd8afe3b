"""A copy is read, restored from and deleted where it lies, whatever the stream's settings are now."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

import pytest

from dedupe_operator.kubernetes.names import COPIES, Object
from dedupe_operator.worker_client import CommandInvalid, WorkerRefused
from tests.unit.operator.objects import NOW
from tests.unit.operator.scene import CHECKPOINT, Scene

OLD: Final[Object] = {"bucket": "old", "prefix": "a/b", "region": "eu-central-1"}
NEW: Final[Object] = {"bucket": "new", "endpoint": "http://minio:9000"}
_DENIED: Final = WorkerRefused("BucketRefused", "reading it of bucket old: AccessDenied")


def s3(settings: Object) -> dict[str, Any]:
    return {"spec.snapshots": {"provider": "S3", "s3": settings}}


@dataclass
class Buckets:
    """All buckets, as the workers of a scene reach them; a worker without a location uses its own."""

    scene: Scene
    copies: set[tuple[str, int, str]] = field(default_factory=set)
    closed: dict[str, Exception] = field(default_factory=dict)
    own: str = "old"
    knows_locations: bool = True

    def __post_init__(self) -> None:
        self.scene.workers.answers |= {
            "/snapshots": self._upload,
            "/snapshots/check": self._check,
            "/snapshots/delete": self._delete,
        }

    def _bucket(self, body: Mapping[str, Any]) -> str:
        if "location" in body and not self.knows_locations:
            raise CommandInvalid("BadRequest", "location: Extra inputs are not permitted")
        bucket = str(body.get("location", {}).get("bucket", self.own))
        if bucket in self.closed:
            raise self.closed[bucket]
        return bucket

    def _upload(self, partition: int, body: Mapping[str, Any]) -> Object:
        self.copies.add((self._bucket(body), partition, body["name"]))
        return {
            "name": body["name"],
            "phase": "Completed",
            "handle": f"shop/orders/{partition}/snapshots/{body['name']}.json",
            "checkpoint": CHECKPOINT,
        }

    def _check(self, partition: int, body: Mapping[str, Any]) -> Object:
        return {"present": (self._bucket(body), partition, body["name"]) in self.copies}

    def _delete(self, partition: int, body: Mapping[str, Any]) -> Object:
        bucket = self._bucket(body)
        self.copies -= {(bucket, partition, name) for name in body["names"]}
        return {}


@pytest.fixture(autouse=True)
def _stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    pass_time(monkeypatch, timedelta())


@pytest.fixture
def buckets(scene: Scene) -> Buckets:
    """A stream with a complete snapshot `s` in bucket `old`."""
    scene.cluster.add_stream(s3(OLD))
    scene.rest()
    buckets = Buckets(scene)
    scene.add_snapshot("s")
    scene.rest()
    return buckets


def pass_time(monkeypatch: pytest.MonkeyPatch, time: timedelta) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Later":
            return cls.fromtimestamp((NOW + time).timestamp(), tz)

    monkeypatch.setattr("dedupe_operator.controller.reconciler.datetime", Later)


def entries(scene: Scene, name: str = "s") -> list[Object]:
    found: list[Object] = scene.snapshot(name)["status"]["partitions"]
    return found


def move(buckets: Buckets) -> Scene:
    """Let the stream's user choose another bucket, and all workers start with it."""
    scene = buckets.scene
    scene.cluster.add_stream(s3(NEW))
    scene.rest()
    buckets.own = "new"
    return scene


def variables(scene: Scene) -> dict[str, str]:
    spec = scene.cluster.one("StatefulSet", "orders-0")["spec"]["template"]["spec"]
    return {each["name"]: each["value"] for each in spec["containers"][0].get("env", ())}


def lose_volume(scene: Scene) -> None:
    scene.cluster.remove("Pod", "orders-0-0")
    scene.cluster.remove("PersistentVolumeClaim", "orders-0-1")


def restore(scene: Scene) -> Object:
    found: Object = scene.cluster.status["partitions"][0]["restore"]
    return found


def test_a_location_is_recorded_before_the_worker_is_asked(scene: Scene) -> None:
    scene.cluster.add_stream(s3(OLD))
    scene.rest()
    scene.workers.answers["/snapshots"] = WorkerRefused("Busy", "later")
    scene.add_snapshot("s")
    scene.look()
    assert entries(scene)[0]["location"] == OLD


def test_copies_are_deleted_where_they_lie(buckets: Buckets) -> None:
    scene = move(buckets)
    scene.add_snapshot("t")
    scene.rest()
    assert {bucket for bucket, _, _ in buckets.copies} == {"old", "new"}
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    scene.rest()
    assert {bucket for bucket, _, _ in buckets.copies} == {"new"}
    assert scene.cluster.names("DedupeSnapshot") == ["t"]


def test_another_prefix_is_another_location(buckets: Buckets) -> None:
    scene = buckets.scene
    scene.cluster.add_stream(s3({**OLD, "prefix": "c"}))
    scene.rest()
    scene.workers.asked.clear()
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    scene.rest()
    deleted = [body for _, path, body in scene.workers.asked if path == "/snapshots/delete"]
    assert [body["location"] for body in deleted] == [OLD, OLD]


def test_a_worker_that_still_has_other_settings_is_told_the_location(buckets: Buckets) -> None:
    scene = buckets.scene
    scene.cluster.one("Pod", "orders-0-0")["metadata"]["annotations"] = {}
    scene.workers.asked.clear()
    scene.add_snapshot("t")
    scene.look()
    uploads = {
        partition: body for partition, path, body in scene.workers.asked if path == "/snapshots"
    }
    assert uploads[0] == {"name": "t", "location": OLD}
    scene.rest()
    assert {"name": "t"} in [body for partition, _, body in scene.workers.asked if partition]


def test_a_store_is_restored_from_where_its_copy_lies(buckets: Buckets) -> None:
    scene = move(buckets)
    lose_volume(scene)
    scene.rest()
    assert (restore(scene)["source"], restore(scene)["name"]) == ("Checkpoint", "s")
    assert json.loads(variables(scene)["DEDUPE_WORKER_RESTORE_LOCATION"]) == OLD
    # The pod stays as it is, although the object with the record is gone.
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    scene.rest()
    assert json.loads(variables(scene)["DEDUPE_WORKER_RESTORE_LOCATION"]) == OLD


def test_a_worker_in_the_same_bucket_needs_no_location(buckets: Buckets) -> None:
    scene = buckets.scene
    lose_volume(scene)
    scene.rest()
    assert restore(scene)["location"] == OLD
    assert variables(scene) == {}


def test_a_copy_that_can_not_be_read_is_not_usable_and_said_by_name(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets.closed["old"] = _DENIED
    scene = move(buckets)
    assert "BucketRefused" in entries(scene)[0]["unreachable"]
    healthy = scene.cluster.condition("SnapshotsHealthy")
    assert (healthy["status"], healthy["reason"]) == ("False", "CopiesNotReadable")
    assert "in s can't be read where it lies: BucketRefused" in healthy["message"]
    assert "CopiesNotReadable" in scene.cluster.told
    assert "lastSnapshot" not in scene.cluster.status["partitions"][0]
    assert scene.cluster.condition("Ready")["status"] == "True"
    lose_volume(scene)
    scene.rest()
    assert restore(scene)["source"] == "OutputTopic"
    assert "s: its copy can't be read: BucketRefused" in restore(scene)["refused"][0]
    del buckets.closed["old"]
    pass_time(monkeypatch, timedelta(minutes=2))
    scene.rest()
    assert "unreachable" not in entries(scene)[0]
    assert scene.cluster.condition("SnapshotsHealthy")["reason"] == "UpToDate"


def test_a_bucket_that_does_not_answer_for_a_moment_changes_nothing(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets.closed["old"] = WorkerRefused("BucketUnavailable", "no answer")
    scene = move(buckets)
    assert "unreachable" not in entries(scene)[0]
    pass_time(monkeypatch, timedelta(minutes=6))
    scene.rest()
    assert entries(scene)[0]["unreachable"] == "BucketUnavailable: no answer"


def test_a_copy_that_somebody_deleted_in_the_bucket_is_not_usable(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets.copies.clear()
    pass_time(monkeypatch, timedelta(hours=2))
    buckets.scene.rest()
    assert "CopyNotFound" in entries(buckets.scene)[0]["unreachable"]


@pytest.mark.parametrize(
    "refusal", [_DENIED, CommandInvalid("NoBucket", "the stream has no spec.snapshots.s3")]
)
def test_a_snapshot_whose_copies_can_not_be_deleted_is_not_forgotten(
    buckets: Buckets, refusal: Exception
) -> None:
    buckets.closed["old"] = refusal
    scene = move(buckets)
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    scene.rest()
    assert scene.snapshot("s")["metadata"]["finalizers"] == [COPIES]
    assert len(buckets.copies) == 2
    healthy = scene.cluster.condition("SnapshotsHealthy")
    assert (healthy["status"], healthy["reason"]) == ("False", "CopiesNotDeleted")
    del buckets.closed["old"]
    scene.rest()
    assert buckets.copies == set()
    assert scene.cluster.names("DedupeSnapshot") == []


def test_copies_of_a_stream_without_snapshots_are_still_said_by_name(buckets: Buckets) -> None:
    buckets.closed["old"] = CommandInvalid("NoBucket", "the stream has no spec.snapshots.s3")
    scene = buckets.scene
    scene.cluster.add_stream()
    scene.rest()
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    scene.rest()
    assert scene.cluster.condition("SnapshotsHealthy")["reason"] == "CopiesNotDeleted"
    assert scene.cluster.names("DedupeSnapshot") == ["s"]


def without_locations(scene: Scene) -> None:
    """Let the snapshot be of an earlier release, and the operator see it for the first time."""
    for entry in scene.cluster.one("DedupeSnapshot", "s")["status"]["partitions"]:
        del entry["location"]
    scene.restart_operator()


def test_a_copy_of_an_earlier_release_is_recorded_once_it_is_seen(buckets: Buckets) -> None:
    scene = buckets.scene
    without_locations(scene)
    scene.rest()
    assert [entry["location"] for entry in entries(scene)] == [OLD, OLD]
    scene = move(buckets)
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    scene.rest()
    assert buckets.copies == set()


def test_a_copy_of_an_earlier_release_that_is_not_here_is_not_forgotten(buckets: Buckets) -> None:
    scene = move(buckets)
    without_locations(scene)
    scene.rest()
    assert "location" not in entries(scene)[0]
    assert "CopyNotFound" in entries(scene)[0]["unreachable"]
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    scene.rest()
    assert scene.cluster.names("DedupeSnapshot") == ["s"]
    assert scene.cluster.condition("SnapshotsHealthy")["reason"] == "CopiesNotDeleted"


def test_a_worker_of_an_earlier_release_keeps_the_copies_that_it_can_not_reach(
    buckets: Buckets,
) -> None:
    scene = move(buckets)
    buckets.knows_locations = False
    scene.cluster.delete_as_user("DedupeSnapshot", "s")
    scene.rest()
    assert scene.cluster.names("DedupeSnapshot") == ["s"]
    scene.add_snapshot("t")
    scene.rest()
    assert scene.snapshot("t")["status"]["phase"] == "Completed"
