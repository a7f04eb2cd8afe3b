"""Snapshots are deleted with what no other one needs, and nothing else is ever touched."""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from threading import Event

import pytest

from dedupe_worker.errors import BucketRefused
from dedupe_worker.snapshots import garbage_collection as garbage
from dedupe_worker.snapshots.garbage_collection import delete_snapshots
from tests.support.processes.faulty_proxy import (
    Answer,
    Fault,
    Forward,
    Request,
    changing,
    cut_after_the_act,
)
from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import (
    ACCESS_DENIED,
    ALWAYS,
    SERVER_ERROR,
    SLOW_DOWN,
    TestBucket,
)
from tests.support.snapshots.scene import FOLDER, Scene

__all__ = ["bucket", "s3_server"]


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """One deletion is enough, however slow the machine is."""
    monkeypatch.setattr(garbage, "_SECONDS", 600.0)


@pytest.fixture
def scene(bucket: TestBucket, tmp_path: Path) -> Scene:
    """With snapshots `a` and `b`, which have files in common, and each some of its own."""
    scene = Scene(bucket, tmp_path)
    scene.upload("a", scene.checkpoint(1))
    scene.upload("b", scene.checkpoint(2))
    return scene


def later(scene: Scene, hours: float = 2) -> None:
    """The bucket's clock goes forward, and all that it holds is as much older."""

    def forwarded(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        date = parsedate_to_datetime(answer.headers["Date"]) + timedelta(hours=hours)
        headers = {**answer.headers, "Date": format_datetime(date, usegmt=True)}
        return Answer(status=answer.status, body=answer.body, headers=headers)

    scene.bucket.proxy.inject(lambda each: each.method == "GET", forwarded, times=ALWAYS)


def contents(scene: Scene, *names: str) -> dict[str, int]:
    """What these snapshots are made of: sizes by key."""
    return {
        f"{FOLDER}/objects/{each['sha256']}": each["size"]
        for name in names
        for each in scene.bucket.manifest(f"{FOLDER}/snapshots/{name}.json")["files"]
    }


def test_what_no_other_snapshot_needs_goes_with_it(scene: Scene) -> None:
    of_a, of_b = contents(scene, "a"), contents(scene, "b")
    only_a = {key: size for key, size in of_a.items() if key not in of_b}
    assert 0 < len(only_a) < len(of_a), "they share a file of ids"
    later(scene)
    deleted = delete_snapshots(scene.place(), ["a"])
    assert (deleted.names, deleted.objects) == (["a"], len(only_a))
    assert deleted.bytes == sum(only_a.values())
    assert scene.bucket.objects().keys() == {*of_b, f"{FOLDER}/snapshots/b.json"}
    scene.restore("b").run(Event())


def test_what_is_young_stays_because_a_manifest_may_follow(scene: Scene) -> None:
    before = scene.bucket.objects()
    later(scene, hours=0.9)
    deleted = delete_snapshots(scene.place(), ["a"])
    assert (deleted.objects, deleted.bytes) == (0, 0)
    assert scene.bucket.objects().keys() == before.keys() - {f"{FOLDER}/snapshots/a.json"}
    scene.bucket.proxy.clear()
    later(scene)
    assert delete_snapshots(scene.place(), ["a"]).objects > 0, "another time it is found"


def test_deleting_what_is_gone_is_no_fault(scene: Scene) -> None:
    later(scene)
    assert delete_snapshots(scene.place(), ["a", "c"]).names == ["a", "c"]
    again = delete_snapshots(scene.place(), ["a", "c"])
    assert (again.names, again.objects, again.bytes) == (["a", "c"], 0, 0)


def test_nothing_is_touched_that_is_not_ours(scene: Scene) -> None:
    digest = hashlib.sha256(b"another's").hexdigest()
    foreign = {
        "precious",
        f"objects/{digest}",
        f"{FOLDER}/README",
        f"{FOLDER}/objects/notes.txt",
        f"{FOLDER}/objects/{digest[:-1]}",
        f"{FOLDER}/objects/{digest}.bak",
        f"{FOLDER}/objects/old/{digest}",
        f"{FOLDER}/snapshots/a.json.bak",
        f"{FOLDER}/snapshots/old/a.json",
        f"{FOLDER}1/objects/{digest}",
        f"{FOLDER}1/snapshots/a.json",
        f"default/orders/2/objects/{digest}",
    }
    for key in foreign:
        scene.bucket.client.put_object(Bucket=scene.bucket.name, Key=key, Body=b"another's")
    later(scene)
    delete_snapshots(scene.place(), ["a", "b"])
    assert scene.bucket.objects().keys() == foreign


def test_while_a_manifest_cannot_be_read_no_content_is_deleted(scene: Scene) -> None:
    before = scene.bucket.objects()
    damaged = f"{FOLDER}/snapshots/damaged.json"
    scene.bucket.client.put_object(Bucket=scene.bucket.name, Key=damaged, Body=b"{")
    later(scene)
    assert delete_snapshots(scene.place(), ["a"]).objects == 0
    assert scene.bucket.objects().keys() == {*before, damaged} - {f"{FOLDER}/snapshots/a.json"}
    assert delete_snapshots(scene.place(), ["damaged"]).objects > 0
    scene.bucket.proxy.clear()
    scene.restore("b").run(Event())


@pytest.mark.parametrize("fault", [ACCESS_DENIED, SERVER_ERROR])
def test_while_a_manifest_is_not_to_be_had_no_content_is_deleted(
    scene: Scene, fault: Fault
) -> None:
    before = scene.bucket.objects()
    scene.bucket.proxy.inject(
        lambda each: each.method == "GET" and each.path.endswith("b.json"), fault, times=8
    )
    later(scene)
    with pytest.raises(Exception, match=r"b\.json"):
        delete_snapshots(scene.place(), ["a"])
    assert scene.bucket.objects().keys() == before.keys() - {f"{FOLDER}/snapshots/a.json"}


@pytest.mark.parametrize("fault", [SLOW_DOWN, cut_after_the_act])
def test_what_passes_is_got_over(scene: Scene, fault: Fault) -> None:
    later(scene)
    scene.bucket.proxy.inject(lambda each: each.method == "DELETE", fault, times=2)
    delete_snapshots(scene.place(), ["a", "b"])
    assert scene.bucket.objects() == {}


def test_a_right_that_is_missing_is_named(scene: Scene) -> None:
    scene.bucket.proxy.inject(lambda each: each.method == "DELETE", ACCESS_DENIED, times=ALWAYS)
    with pytest.raises(BucketRefused, match=r"deleting .*a\.json.*AccessDenied.*DeleteObject"):
        delete_snapshots(scene.place(), ["a"])


def test_what_takes_too_long_is_left_to_the_next_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(scene)
    with monkeypatch.context() as patch:
        patch.setattr(garbage, "_SECONDS", -1.0)
        assert delete_snapshots(scene.place(), ["a", "b"]).objects == 0
    assert scene.bucket.objects()
    delete_snapshots(scene.place(), ["a"])
    assert scene.bucket.objects() == {}


def test_parts_that_a_crash_left_are_given_up(scene: Scene) -> None:
    digest = hashlib.sha256(b"large").hexdigest()
    ours, foreign = f"{FOLDER}/objects/{digest}", f"{FOLDER}/objects/large.bin"
    for key in (ours, foreign):
        scene.bucket.client.create_multipart_upload(Bucket=scene.bucket.name, Key=key)
    now = datetime.now(UTC).isoformat().encode()  # moto says 2010 of all of them
    scene.bucket.proxy.inject(
        lambda each: "uploads" in each.path,
        changing(lambda body: re.sub(b"(<Initiated>)[^<]*", rb"\g<1>" + now, body)),
    )
    delete_snapshots(scene.place(), ["a"])
    assert unfinished(scene) == {ours, foreign}, "they are young"
    delete_snapshots(scene.place(), ["a"])
    assert unfinished(scene) == {foreign}


def test_a_service_that_lists_no_parts_is_no_obstacle(scene: Scene) -> None:
    later(scene)
    scene.bucket.proxy.inject(lambda each: "uploads" in each.path, ACCESS_DENIED, times=ALWAYS)
    assert delete_snapshots(scene.place(), ["a"]).objects > 0


def unfinished(scene: Scene) -> set[str]:
    answer = scene.bucket.client.list_multipart_uploads(Bucket=scene.bucket.name)
    return {each["Key"] for each in answer.get("Uploads", [])}
