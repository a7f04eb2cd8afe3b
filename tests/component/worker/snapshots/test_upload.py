"""A checkpoint goes to a bucket whole, in spite of what services and networks do, and what is there goes once."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dedupe_worker.errors import BucketRefused, BucketUnavailable, SnapshotFailed
from dedupe_worker.snapshots import digest_cache as digests
from dedupe_worker.snapshots import s3_client as client
from dedupe_worker.snapshots.manifest import Manifest
from tests.support.processes.faulty_proxy import (
    Answer,
    Fault,
    Forward,
    Request,
    cut,
    cut_after_the_act,
)
from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import (
    ACCESS_DENIED,
    ALWAYS,
    NO_SUCH_BUCKET,
    SERVER_ERROR,
    SLOW_DOWN,
    TestBucket,
    half_of_it,
    is_content,
    refusal,
)
from tests.support.snapshots.scene import FOLDER, LARGE, Scene

__all__ = ["bucket", "s3_server"]

MANIFEST = f"{FOLDER}/snapshots/a.json"


@pytest.fixture
def scene(bucket: TestBucket, tmp_path: Path) -> Scene:
    return Scene(bucket, tmp_path)


def is_upload(request: Request) -> bool:
    return request.method == "PUT" and is_content(request)


def is_part(request: Request) -> bool:
    return is_upload(request) and "partNumber" in request.path


def is_completion(request: Request) -> bool:
    return request.method == "POST" and "uploadId" in request.path


def assert_whole(scene: Scene, checkpoint: Path, manifest: Manifest) -> None:
    """The bucket holds the manifest, and each file under its content's name."""
    found = Manifest.model_validate(
        scene.bucket.manifest(f"{FOLDER}/snapshots/{manifest.name}.json")
    )
    assert found == manifest
    files = sorted(each for each in checkpoint.rglob("*") if each.is_file())
    assert [each.path for each in found.files] == [
        each.relative_to(checkpoint).as_posix() for each in files
    ]
    for entry, path in zip(found.files, files, strict=True):
        key = f"{FOLDER}/objects/{entry.sha256}"
        content = scene.bucket.client.get_object(Bucket=scene.bucket.name, Key=key)["Body"].read()
        assert (len(content), content) == (entry.size, path.read_bytes())


@pytest.mark.proof
def test_every_file_is_there_and_the_manifest_was_written_last(scene: Scene) -> None:
    checkpoint = scene.checkpoint(1, 2)
    manifest = scene.upload("a", checkpoint)
    assert_whole(scene, checkpoint, manifest)
    assert {"checkpoint.json", "db/CURRENT"} < {each.path for each in manifest.files}
    puts = [each.path for each in scene.bucket.proxy.seen if each.method == "PUT"]
    assert puts[-1].endswith(MANIFEST)
    assert sum("/snapshots/" in each for each in puts) == 1
    assert scene.sent[-1] == (manifest.bytes, manifest.bytes, manifest.bytes)


def test_the_second_snapshot_uploads_what_changed(scene: Scene) -> None:
    scene.upload("a", scene.checkpoint(1, 2, count=20_000))
    first = sum(len(each.body) for each in scene.bucket.uploaded())
    scene.bucket.proxy.seen.clear()
    checkpoint = scene.checkpoint(3, count=1_000)
    manifest = scene.upload("b", checkpoint)
    assert_whole(scene, checkpoint, manifest)
    second = sum(len(each.body) for each in scene.bucket.uploaded())
    total, new, sent = scene.sent[-1]
    assert new == sent == second
    assert second < first / 10
    assert total == manifest.bytes > first
    old = {each.path for each in manifest.files if each.path.endswith(".sst")}
    assert len(old) == 3


def test_unchanged_files_are_not_read_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.upload("a", scene.checkpoint(1, 2))
    read = counted(monkeypatch)
    scene.upload("b", scene.checkpoint(3))
    assert sum(each.suffix == ".sst" for each in read) == 1


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"files": {}, "digest": ""}'])
def test_a_lost_or_damaged_memory_of_digests_costs_time_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    scene.upload("a", scene.checkpoint(1, 2))
    memory = scene.state.root / "digests.json"
    memory.unlink() if content is None else memory.write_bytes(content)
    read = counted(monkeypatch)
    checkpoint = scene.checkpoint(3)
    assert_whole(scene, checkpoint, scene.upload("b", checkpoint))
    assert sum(each.suffix == ".sst" for each in read) == 3


def test_a_digest_that_was_meddled_with_is_not_believed(scene: Scene) -> None:
    checkpoint = scene.made_up(1_000, 1_000)
    scene.upload("a", checkpoint)
    memory = scene.state.root / "digests.json"
    content = json.loads(memory.read_text())
    one, other = (key for key in content["files"] if ".sst" in key)
    known = content["files"]
    known[one], known[other] = known[other], known[one]
    memory.write_text(json.dumps(content))
    assert_whole(scene, checkpoint, scene.upload("b", checkpoint))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    read: list[Path] = []
    real = digests.sha256_of

    def sha256_of(path: Path) -> str:
        read.append(path)
        return real(path)

    monkeypatch.setattr(digests, "sha256_of", sha256_of)
    return read


# -- what is believed to be there ----------------------------------------------------------------


def test_a_content_that_no_manifest_names_is_uploaded_again(scene: Scene) -> None:
    """It may be deleted as garbage at any moment."""
    of_a = {each.sha256 for each in scene.upload("a", scene.checkpoint(1)).files}
    checkpoint = scene.checkpoint(2)
    of_b = {each.sha256 for each in scene.upload("b", checkpoint).files}
    key = f"{FOLDER}/snapshots/b.json"
    scene.bucket.client.delete_object(Bucket=scene.bucket.name, Key=key)
    scene.bucket.proxy.seen.clear()
    assert_whole(scene, checkpoint, scene.upload("c", checkpoint))
    assert {each.path.rpartition("/")[2] for each in scene.bucket.uploaded()} == of_b - of_a


def test_a_content_of_another_size_is_uploaded_again(scene: Scene) -> None:
    checkpoint = scene.checkpoint(1)
    manifest = scene.upload("a", checkpoint)
    key = f"{FOLDER}/objects/{manifest.files[1].sha256}"
    scene.bucket.client.put_object(Bucket=scene.bucket.name, Key=key, Body=b"half of i")
    scene.bucket.proxy.seen.clear()
    assert_whole(scene, checkpoint, scene.upload("b", checkpoint))
    assert [each.path for each in scene.bucket.uploaded()] == [f"/{scene.bucket.name}/{key}"]


def test_a_damaged_manifest_of_another_snapshot_is_no_obstacle(scene: Scene) -> None:
    scene.bucket.client.put_object(Bucket=scene.bucket.name, Key=MANIFEST, Body=b"{")
    checkpoint = scene.checkpoint(1)
    assert_whole(scene, checkpoint, scene.upload("b", checkpoint))


def test_a_content_that_is_missing_in_the_end_withdraws_the_snapshot(scene: Scene) -> None:
    def lose_one(request: Request, forward: Forward) -> Answer:
        key = next(iter(scene.bucket.objects(f"{FOLDER}/objects/")))
        scene.bucket.client.delete_object(Bucket=scene.bucket.name, Key=key)
        return forward(request)

    scene.bucket.proxy.inject(lambda each: each.path.endswith(MANIFEST), lose_one)
    with pytest.raises(SnapshotFailed, match=r"1 of \d+ files are not in bucket"):
        scene.upload("a", scene.checkpoint(1))
    assert MANIFEST not in scene.bucket.objects()


# -- faults --------------------------------------------------------------------------------------


def half(scene: Scene) -> Fault:
    return half_of_it(scene.bucket)


PASSING: dict[str, Callable[[Scene], Fault]] = {
    "throttled": lambda _: SLOW_DOWN,
    "500": lambda _: SERVER_ERROR,
    "cut": lambda _: cut,
    "cut after the act": lambda _: cut_after_the_act,
    "half": half,
}


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("what", [is_upload, lambda each: each.path.endswith(MANIFEST)])
def test_what_passes_is_got_over(scene: Scene, fault: str, what: Callable[[Request], bool]) -> None:
    scene.bucket.proxy.inject(what, PASSING[fault](scene), times=2)
    checkpoint = scene.checkpoint(1)
    assert_whole(scene, checkpoint, scene.upload("a", checkpoint))
    assert scene.bucket.proxy.pending == 0
    assert scene.sent[-1][1] == scene.sent[-1][2], "what was sent again is counted once"


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("what", [is_part, is_completion])
def test_what_passes_is_got_over_in_parts(
    scene: Scene, fault: str, what: Callable[[Request], bool]
) -> None:
    scene.bucket.proxy.inject(what, PASSING[fault](scene))
    checkpoint = scene.made_up(LARGE, 10)
    assert_whole(scene, checkpoint, scene.upload("a", checkpoint))
    assert scene.bucket.proxy.pending == 0


def test_an_upload_in_parts_that_was_complete_already_is_no_fault(scene: Scene) -> None:
    """Not every service remembers it when it is asked a second time, because its answer was lost."""
    scene.bucket.proxy.inject(is_completion, cut_after_the_act)
    scene.bucket.proxy.inject(is_completion, refusal(404, "NoSuchUpload"))
    checkpoint = scene.made_up(LARGE, 10)
    assert_whole(scene, checkpoint, scene.upload("a", checkpoint))
    assert scene.bucket.proxy.pending == 0


def test_an_upload_in_parts_that_is_lost_is_noticed(scene: Scene) -> None:
    scene.bucket.proxy.inject(is_completion, refusal(404, "NoSuchUpload"))
    with pytest.raises(SnapshotFailed, match=r"1 of 3 files"):
        scene.upload("a", scene.made_up(LARGE, 10))
    assert MANIFEST not in scene.bucket.objects()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (ACCESS_DENIED, BucketRefused),
        (NO_SUCH_BUCKET, BucketRefused),
        (SLOW_DOWN, BucketUnavailable),
        (cut, BucketUnavailable),
    ],
)
def test_what_does_not_pass_fails_by_name_and_leaves_no_manifest(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, fault: Fault, error: type[Exception]
) -> None:
    monkeypatch.setattr(client, "_ATTEMPTS", 2)
    scene.bucket.proxy.inject(is_upload, fault, times=ALWAYS)
    checkpoint = scene.checkpoint(1)
    with pytest.raises(error, match=scene.bucket.name):
        scene.upload("a", checkpoint)
    scene.bucket.proxy.clear()
    assert MANIFEST not in scene.bucket.objects()
    assert_whole(scene, checkpoint, scene.upload("a", checkpoint))


def test_a_failed_snapshot_leaves_the_one_of_that_name(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_ATTEMPTS", 2)
    scene.upload("a", scene.checkpoint(1))
    before = scene.bucket.manifest(MANIFEST)
    scene.bucket.proxy.inject(is_upload, SERVER_ERROR, times=ALWAYS)
    with pytest.raises(BucketUnavailable):
        scene.upload("a", scene.checkpoint(2))
    assert scene.bucket.manifest(MANIFEST) == before


def test_credentials_that_are_missing_are_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE")
    monkeypatch.setenv("HOME", str(scene.root))
    with pytest.raises(BucketRefused, match="credentialsSecretRef"):
        scene.upload("a", scene.checkpoint(1))


# -- what the requests say -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"encryption": "AES256"}, {"": "AES256"}),
        ({"encryption": "KMS"}, {"": "aws:kms"}),
        (
            {"encryption": "KMS", "kmsKeyId": "alias/ours"},
            {"": "aws:kms", "-aws-kms-key-id": "alias/ours"},
        ),
    ],
)
def test_encryption_is_asked_for_with_each_object(
    scene: Scene, fields: dict[str, object], expected: dict[str, str]
) -> None:
    scene.fields = fields
    scene.upload("a", scene.made_up(LARGE, 10))
    begun = [
        each
        for each in scene.bucket.proxy.seen
        if each.path.endswith("?uploads") or (each.method == "PUT" and not is_part(each))
    ]
    assert len(begun) == 4  # the large one, the small one, checkpoint.json and the manifest
    prefix = "x-amz-server-side-encryption"
    for request in begun:
        found = {
            name.removeprefix(prefix): value
            for name, value in request.headers.items()
            if name.startswith(prefix)
        }
        assert found == expected


def test_small_files_carry_their_checksum_and_parts_are_signed_with_theirs(scene: Scene) -> None:
    scene.upload("a", scene.made_up(LARGE, 10))
    for request in scene.bucket.uploaded():
        assert request.headers["x-amz-content-sha256"] == hashlib.sha256(request.body).hexdigest()
        assert is_part(request) or "x-amz-checksum-sha256" in request.headers


def test_parts_carry_a_checksum_to_amazon(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", scene.bucket.proxy.url)
    scene.fields = {"endpoint": None}
    checkpoint = scene.made_up(LARGE, 10)
    assert_whole(scene, checkpoint, scene.upload("a", checkpoint))
    parts = [each for each in scene.bucket.uploaded() if is_part(each)]
    assert len(parts) == 3
    assert all("x-amz-checksum-sha256" in each.headers for each in parts)


def test_bandwidth_is_bounded(scene: Scene) -> None:
    checkpoint = scene.made_up(400_000, 400_000)
    began = time.monotonic()
    scene.upload("a", checkpoint, bandwidth=200_000)
    assert time.monotonic() - began > 2, "as fast as it can be, it takes a tenth of a second"
