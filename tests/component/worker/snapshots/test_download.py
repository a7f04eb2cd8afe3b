"""An empty directory is filled from a bucket: to the last byte, or not at all, and where it was left off."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from dedupe_crds.status.copy_location import CopyLocation
from dedupe_crds.status.worker import DownloadPhase
from dedupe_worker.admin.metrics import make_registry
from dedupe_worker.errors import BucketUnavailable, DiskFull, RestoreFailed
from dedupe_worker.snapshots import download as restore
from dedupe_worker.snapshots import s3_client as client
from tests.support.processes.faulty_proxy import (
    Answer,
    Fault,
    Forward,
    Request,
    changing,
    cut,
)
from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import (
    ACCESS_DENIED,
    ALWAYS,
    NO_SUCH_BUCKET,
    SERVER_ERROR,
    SLOW_DOWN,
    TestBucket,
    is_content,
    refusal,
)
from tests.support.snapshots.scene import FOLDER, IDENTITY, LARGE, Scene
from tests.support.snapshots.volumes import small_volume
from tests.unit.worker.stores import MIB, count_known, open_store, random_ids

__all__ = ["bucket", "s3_server"]

MANIFEST = f"{FOLDER}/snapshots/a.json"


@pytest.fixture
def scene(bucket: TestBucket, tmp_path: Path) -> Scene:
    return Scene(bucket, tmp_path)


@pytest.fixture
def stored(scene: Scene) -> Scene:
    """With snapshot `a` of a small store in its bucket."""
    scene.upload("a", scene.checkpoint(1, 2))
    scene.bucket.proxy.seen.clear()
    return scene


def is_download(request: Request) -> bool:
    return request.method == "GET" and is_content(request) and "list-type" not in request.path


def of_a_table(scene: Scene) -> Callable[[Request], bool]:
    """Chooses the downloads of one file of ids."""
    files = scene.bucket.manifest(MANIFEST)["files"]
    digest = next(each["sha256"] for each in files if each["path"].endswith(".sst"))
    return lambda request: request.method == "GET" and request.path.endswith(digest)


def downloads(scene: Scene) -> int:
    return sum(is_download(each) for each in scene.bucket.proxy.seen)


def files_of(directory: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in directory.iterdir()}


def assert_restored(scene: Scene) -> None:
    state = scene.target
    assert not state.restoring.exists()
    assert state.recorded(IDENTITY.stream, IDENTITY.partition) == IDENTITY
    store = open_store(state.database)
    assert count_known(store, random_ids(1, 2_000)) == 2_000
    assert count_known(store, random_ids(2, 2_000)) == 2_000
    assert store.metadata is not None
    assert store.metadata.output_position == 4_000
    store.close()


def assert_not_begun(scene: Scene) -> None:
    """A store in its place without all its files would be opened, and believed."""
    assert not scene.target.database.exists()
    assert scene.target.recorded(IDENTITY.stream, IDENTITY.partition) is None


def failed(scene: Scene, name: str = "a") -> str:
    """Download, and return why it could not be done."""
    with pytest.raises(RestoreFailed) as caught:
        scene.restore(name).run(Event())
    assert_not_begun(scene)
    download = scene.worker_state.download
    assert download is not None
    assert (download.name, download.phase) == (name, DownloadPhase.FAILED)
    assert download.error
    assert download.error in str(caught.value)
    return download.error


@pytest.mark.proof
def test_the_store_is_as_it_was(stored: Scene) -> None:
    files = files_of(next(stored.state.checkpoints.iterdir()) / "db")
    stored.restore("a").run(Event())
    assert files_of(stored.target.database) == files
    assert_restored(stored)
    download = stored.worker_state.download
    assert download is not None
    assert (download.phase, download.error) == (DownloadPhase.COMPLETED, None)
    assert download.bytes == download.total_bytes == sum(map(len, files.values()))
    labels = {"stream": IDENTITY.stream, "partition": str(IDENTITY.partition)}
    registry = make_registry(stored.worker_state)
    assert registry.get_sample_value("dedupe_restore_bytes", labels) == download.bytes
    assert registry.get_sample_value("dedupe_restore_total_bytes", labels) == download.bytes
    assert registry.get_sample_value("dedupe_restore_seconds", labels) == download.seconds > 0


def test_large_files_come_in_parts(scene: Scene) -> None:
    checkpoint = scene.made_up(LARGE, 10)
    scene.upload("a", checkpoint)
    scene.restore("a").run(Event())
    assert files_of(scene.target.database) == files_of(checkpoint / "db")
    assert downloads(scene) == 4


# -- what is refused -----------------------------------------------------------------------------


def test_a_snapshot_that_is_not_there(stored: Scene) -> None:
    assert "there is no default/orders/3/snapshots/b.json" in failed(stored, "b")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda m: m["record"].update(stream="default/other"),
            "it is of default/other partition 3",
        ),
        (lambda m: m["record"].update(partition=4), "it is of default/orders partition 4"),
        (lambda m: m.update(format=2), "no manifest that this version can read"),
        (lambda m: m["files"][1].update(path="db/../../identity.json"), "no manifest"),
        (lambda m: m["files"][1].update(path="/etc/passwd"), "no manifest"),
        (lambda m: m["files"][1].update(path="db/.."), "no manifest"),
        (lambda m: m["files"][1].update(sha256="../../a"), "no manifest"),
        (lambda m: m["files"][1].pop("size"), "no manifest"),
    ],
)
def test_a_manifest_that_is_not_right(
    stored: Scene, change: Callable[[Any], object], says: str
) -> None:
    manifest = stored.bucket.manifest(MANIFEST)
    change(manifest)
    put(stored, MANIFEST, json.dumps(manifest).encode())
    assert says in failed(stored)
    assert downloads(stored) == 0


def test_a_manifest_that_is_cut_off(stored: Scene) -> None:
    put(stored, MANIFEST, b'{"format": 1')
    assert "no manifest that this version can read" in failed(stored)


def put(scene: Scene, key: str, body: bytes) -> None:
    scene.bucket.client.put_object(Bucket=scene.bucket.name, Key=key, Body=body)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (ACCESS_DENIED, "AccessDenied"),
        (NO_SUCH_BUCKET, "NoSuchBucket"),
        (refusal(403, "InvalidAccessKeyId"), "InvalidAccessKeyId"),
    ],
)
@pytest.mark.parametrize("what", [is_download, lambda each: each.path.endswith(MANIFEST)])
def test_a_bucket_that_refuses(
    stored: Scene, fault: Fault, says: str, what: Callable[[Request], bool]
) -> None:
    stored.bucket.proxy.inject(
        lambda each: each.method == "GET" and what(each), fault, times=ALWAYS
    )
    assert says in failed(stored)
    stored.bucket.proxy.clear()
    stored.restore("a").run(Event())
    assert_restored(stored)


def test_a_file_that_is_gone(stored: Scene) -> None:
    entry = stored.bucket.manifest(MANIFEST)["files"][1]
    key = f"{FOLDER}/objects/{entry['sha256']}"
    stored.bucket.client.delete_object(Bucket=stored.bucket.name, Key=key)
    assert "NoSuchKey" in failed(stored)


# -- what is damaged -----------------------------------------------------------------------------


def flip(body: bytes) -> bytes:
    changed = bytearray(body)
    changed[len(body) // 2] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize("change", [flip, lambda body: body[: len(body) // 2]])
def test_a_file_that_is_damaged_on_the_way_is_asked_for_again(
    stored: Scene, change: Callable[[bytes], bytes]
) -> None:
    stored.bucket.proxy.inject(of_a_table(stored), changing(change))
    stored.restore("a").run(Event())
    assert_restored(stored)
    assert stored.bucket.proxy.pending == 0


@pytest.mark.parametrize("change", [flip, lambda body: body[:-1], lambda body: body + b"x"])
def test_a_file_that_is_damaged_where_it_is(
    stored: Scene, change: Callable[[bytes], bytes]
) -> None:
    """Only its name says so: the service sends it as it has it."""
    entry = next(
        each for each in stored.bucket.manifest(MANIFEST)["files"] if each["path"].endswith(".sst")
    )
    key = f"{FOLDER}/objects/{entry['sha256']}"
    object_ = stored.bucket.client.get_object(Bucket=stored.bucket.name, Key=key)
    put(stored, key, change(object_["Body"].read()))
    assert f"{key} in bucket {stored.bucket.name} is damaged" in failed(stored)


# -- what passes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [SLOW_DOWN, SERVER_ERROR, cut])
def test_what_passes_is_got_over(stored: Scene, fault: Fault) -> None:
    stored.bucket.proxy.inject(is_download, fault, times=2)
    stored.bucket.proxy.inject(lambda each: each.path.endswith(MANIFEST), fault)
    stored.restore("a").run(Event())
    assert_restored(stored)
    assert stored.bucket.proxy.pending == 0


def test_a_service_that_does_not_answer_is_no_reason_for_another_source(
    stored: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_ATTEMPTS", 2)
    stored.bucket.proxy.inject(is_download, SLOW_DOWN, times=ALWAYS)
    with pytest.raises(BucketUnavailable, match="SlowDown"):
        stored.restore("a").run(Event())
    assert_not_begun(stored)
    assert stored.worker_state.download is not None
    assert stored.worker_state.download.phase is DownloadPhase.RUNNING


def test_a_service_that_does_not_answer_for_long_gives_way_to_another_source(
    stored: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_ATTEMPTS", 1)
    monkeypatch.setattr(restore, "_PATIENCE_SECONDS", 0.0)
    stored.bucket.proxy.inject(is_download, SLOW_DOWN, times=ALWAYS)
    assert "SlowDown" in failed(stored)


def test_a_disk_without_room_is_named_and_nothing_put_in_place(scene: Scene) -> None:
    scene.upload("a", scene.made_up(3 * MIB, 3 * MIB))
    with small_volume(scene.target.root, 4 * MIB):
        with pytest.raises(DiskFull, match="free or add space"):
            scene.restore("a").run(Event())
        assert_not_begun(scene)


# -- where it was left off -----------------------------------------------------------------------


def test_files_that_are_whole_are_not_asked_for_again(stored: Scene) -> None:
    files = files_of(next(stored.state.checkpoints.iterdir()) / "db")
    names = sorted(name for name in files if name.endswith(".sst"))
    stored.target.restoring.mkdir(parents=True)
    for name in ("CURRENT", names[0]):
        (stored.target.restoring / name).write_bytes(files[name])
    (stored.target.restoring / names[1]).write_bytes(files[names[1]][:-100])  # half arrived
    (stored.target.restoring / f"{names[1]}.4F3a2B").write_bytes(b"what was being written")
    stored.restore("a").run(Event())
    assert downloads(stored) == len(files) - 2
    assert files_of(stored.target.database) == files
    assert_restored(stored)


def test_one_that_is_in_its_place_without_an_identity_is_only_looked_through(
    stored: Scene,
) -> None:
    stored.restore("a").run(Event())
    (stored.target.root / "identity.json").unlink()
    stored.bucket.proxy.seen.clear()
    stored.restore("a").run(Event())
    assert_restored(stored)
    assert downloads(stored) == 0


def test_a_store_of_another_kind_that_lost_its_identity_is_not_taken_over(stored: Scene) -> None:
    shutil.copytree(stored.state.database, stored.target.database)
    (stored.target.database / "000999.sst").write_bytes(b"of another store")
    stored.restore("a").run(Event())
    assert_restored(stored)
    assert not (stored.target.database / "000999.sst").exists()


def test_it_stops_when_told_to_and_goes_on_later(stored: Scene) -> None:
    stop = Event()

    def stopping(request: Request, forward: Forward) -> Answer:
        stop.set()
        return forward(request)

    stored.bucket.proxy.inject(is_download, stopping)
    stored.restore("a").run(stop)
    stored.restore("a").run(Event())
    assert_restored(stored)


def test_a_stop_before_its_end_puts_nothing_in_place(stored: Scene) -> None:
    stop = Event()
    stop.set()
    stored.restore("a").run(stop)
    assert_not_begun(stored)


def test_a_snapshot_is_restored_from_where_it_lies(stored: Scene) -> None:
    location = CopyLocation.of(stored.s3)
    stored.fields["bucket"] = "another-bucket"
    with pytest.raises(RestoreFailed, match="NoSuchBucket"):
        stored.restore("a").run(Event())
    stored.restore("a", location).run(Event())
    assert stored.target.recorded(IDENTITY.stream, IDENTITY.partition) == IDENTITY
