"""Stores, checkpoints, snapshots and bootstraps that an earlier release wrote are opened by this one."""

import hashlib
import json
import shutil
from pathlib import Path
from threading import Event

import pytest

from dedupe_kafka.offsets import OffsetRange as Range
from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.land.output_log import (
    admit_batch,
    check_output,
    recorded_batch,
    write_marker,
)
from dedupe_worker.admin.reconcile_requests import ReconcileRequests
from dedupe_worker.bootstrap.progress import load_progress, read_record, write_record
from dedupe_worker.snapshots.digest_cache import DigestCache
from dedupe_worker.snapshots.manifest import Manifest
from dedupe_worker.status import WorkerState
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.bloom_filter import hash_ids
from dedupe_worker.store.bloom_filter_file import load_bloom_filter, save_bloom_filter
from dedupe_worker.store.checkpoint import CheckpointRecord, restore_from_checkpoint
from dedupe_worker.store.inverse_bloom.segments import MORE
from dedupe_worker.store.metadata import StoreMetadata, decode_metadata, encode_metadata
from dedupe_worker.store.state_dir import StateDirectory
from tests.golden import FILES, documents
from tests.golden.generate import LANDED, bootstrap_record
from tests.golden.stores import (
    BOOTSTRAP_ORDERS,
    BOOTSTRAP_POSITION,
    CHECKPOINT_TIME,
    FIRST_OFFSET,
    FORGOTTEN_MS,
    GENERATIONS,
    IDENTITY,
    PARTITION,
    TABLE_ORDERS,
    TABLE_SLOTS,
    bootstrap_seen_ms,
    make_bootstrap,
    open_store,
    open_table,
    packed_id,
    seen_ms,
    stored_value,
    time_ms,
    write_tables,
)
from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import TestBucket
from tests.support.snapshots.scene import Scene
from tests.unit.worker.stores import remember

__all__ = ["bucket", "s3_server"]

CHECKPOINT = "checkpoints/20251009T010203.456789Z"
NAMES = ["g00000001", "g00000002", "g00000003"]
NEVER_SEEN = range(10_000, 10_500)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The golden files, to be changed by the code that opens them."""
    return shutil.copytree(FILES, tmp_path / "files")


@pytest.fixture
def state(files: Path) -> StateDirectory:
    return StateDirectory(files / "state")


def ids(*ranges: range) -> list[bytes]:
    return [packed_id(number) for numbers in ranges for number in numbers]


def known(store: IdStore, *ranges: range) -> dict[bytes, bytes]:
    asked = ids(*ranges)
    return store.lookup(asked, hash_ids(b"".join(asked)))


def plain_values(*ranges: range) -> dict[bytes, bytes]:
    return {packed_id(number): stored_value(number) for numbers in ranges for number in numbers}


def stamp_of(generation: int, *, marked: bool = False) -> StoreMetadata:
    """Return the stamp that a generation of the plain store was left with."""
    numbers = GENERATIONS[generation]
    return StoreMetadata(
        output_position=numbers.stop,
        input_offset=FIRST_OFFSET + numbers.stop,
        keys=len(numbers),
        first_seen_ms=seen_ms(generation),
        last_seen_ms=seen_ms(generation),
        truncated=marked,
        newest_ms=time_ms(numbers[-1]),
        forgotten_ms=FORGOTTEN_MS if marked else 0,
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


# -- a store ---------------------------------------------------------------------------------------


def test_a_store_has_its_generations_and_stamp(state: StateDirectory) -> None:
    store = open_store(state.database)
    assert store.metadata == stamp_of(2, marked=True)
    assert store.positions() == list(zip(NAMES, (300, 500, 600), strict=True))
    described = [(g.keys, g.first_seen_ms, g.last_seen_ms) for g in store.generations()]
    assert described == [
        (300, seen_ms(0), seen_ms(0)),
        (200, seen_ms(1), seen_ms(1)),
        (100, seen_ms(2), seen_ms(2)),
    ]
    store.close()


def test_a_store_knows_its_ids_with_their_owners_and_no_others(state: StateDirectory) -> None:
    store = open_store(state.database)
    assert known(store, *GENERATIONS, NEVER_SEEN) == plain_values(*GENERATIONS)
    for name, numbers in zip(NAMES, GENERATIONS, strict=True):
        assert b"".join(store.ids(name)) == b"".join(sorted(ids(numbers)))
    store.close()


def test_a_store_knows_timestamps_and_hashes_of_contents(files: Path) -> None:
    store = open_store(files / "values")
    expected = {
        packed_id(number): stored_value(number, timed=True, hashed=True)
        for numbers in GENERATIONS
        for number in numbers
    }
    assert known(store, *GENERATIONS, NEVER_SEEN) == expected
    store.close()


def test_a_store_is_continued(state: StateDirectory) -> None:
    store = open_store(state.database)
    new = b"".join(sorted(ids(NEVER_SEEN)))
    remember(store, new, position=1_100, now_ms=seen_ms(3))
    store.close()
    store = open_store(state.database)
    assert len(known(store, *GENERATIONS, NEVER_SEEN)) == 600 + len(NEVER_SEEN)
    assert store.metadata is not None
    assert (store.metadata.output_position, store.metadata.truncated) == (1_100, True)
    assert store.forgotten_ms == FORGOTTEN_MS
    store.close()


def test_a_batch_is_judged_by_a_store_of_before(files: Path) -> None:
    store = open_store(files / "values")
    golden = json.loads((FILES / "routed_records.json").read_bytes())
    assert documents.routed_records(store) == golden
    store.close()


@pytest.mark.parametrize("store", ["state/db", "values"])
@pytest.mark.parametrize("generation", range(3))
def test_a_filter_of_a_generation_is_read_and_written_as_it_was(
    files: Path, tmp_path: Path, generation: int, store: str
) -> None:
    path = files / store / f"{NAMES[generation]}.prefilter"
    stamp = stamp_of(generation, marked=generation == 2 and store == "state/db")
    loaded = load_bloom_filter(path, stamp, 1 << 20)
    assert loaded is not None
    numbers = GENERATIONS[generation]
    assert loaded.may_contain(hash_ids(b"".join(ids(numbers)))).all()
    assert loaded.may_contain(hash_ids(b"".join(ids(NEVER_SEEN)))).mean() < 0.05
    assert save_bloom_filter(tmp_path / "again", loaded, stamp)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert load_bloom_filter(path, stamp_of((generation + 1) % 3), 1 << 20) is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2", documents.STAMP),
        (
            "1",
            StoreMetadata(
                output_position=300,
                input_offset=-1,
                keys=299,
                first_seen_ms=seen_ms(0),
                last_seen_ms=seen_ms(0) + 1,
                truncated=True,
                newest_ms=seen_ms(0) + 1,
                forgotten_ms=0,
            ),
        ),
    ],
)
def test_stamps_of_both_formats_are_read(written: str, expected: StoreMetadata) -> None:
    golden = json.loads((FILES / "stamps.json").read_bytes())
    assert decode_metadata(bytes.fromhex(golden[written])) == expected
    assert encode_metadata(documents.STAMP).hex() == golden["2"]


# -- the rest of a state directory -----------------------------------------------------------------


def test_the_identity_is_read_and_written_as_it_was(state: StateDirectory) -> None:
    before = (state.root / "identity.json").read_bytes()
    assert state.recorded("default/orders", PARTITION) == IDENTITY
    state.record(IDENTITY)
    assert (state.root / "identity.json").read_bytes() == before


def test_the_lock_is_the_file_of_before(state: StateDirectory) -> None:
    with state.lock():
        assert (state.root / "lock").exists()


def test_the_last_reconcile_is_answered_as_before(state: StateDirectory) -> None:
    requests = ReconcileRequests(
        WorkerState(documents.stream("full"), PARTITION), state.reconcile_answer
    )
    assert requests.ask("2025-10-09T01:02:03Z", full=True) == documents.comparison()
    before = state.reconcile_answer.read_bytes()
    requests.answer(documents.comparison())
    assert state.reconcile_answer.read_bytes() == before


def test_the_record_of_a_bootstrap_is_read_and_written_as_it_was(state: StateDirectory) -> None:
    before = (state.root / "bootstrap.json").read_bytes()
    assert read_record(state) == bootstrap_record()
    write_record(state, bootstrap_record())
    assert (state.root / "bootstrap.json").read_bytes() == before


def test_digests_of_files_are_used_again(state: StateDirectory) -> None:
    """A digest is known by a file's name, inode, size and time of change, which are other ones in each copy."""
    path = state.root / "digests.json"
    golden = json.loads(path.read_bytes())
    database = state.root / CHECKPOINT / "db"
    moved = {}
    for key, digest in golden["files"].items():
        name, _, size, _ = key.split(" ")
        file = state.root / CHECKPOINT / name if name == "checkpoint.json" else database / name
        assert (file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()) == (
            int(size),
            digest,
        )
        moved[f"{name} {file.stat().st_ino} {size} {file.stat().st_mtime_ns}"] = digest
    assert golden["digest"] == seal(golden["files"])
    path.write_text(json.dumps({"digest": seal(moved), "files": moved}) + "\n")
    before = path.read_bytes()
    digests = DigestCache(path)
    for key, digest in moved.items():
        name = key.split(" ")[0]
        file = state.root / CHECKPOINT / name if name == "checkpoint.json" else database / name
        assert digests.remembered(file) == digest
    digests.save()
    assert path.read_bytes() == before


def seal(digests: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


# -- a checkpoint and a snapshot -------------------------------------------------------------------


def test_a_checkpoint_takes_the_place_of_a_damaged_store(state: StateDirectory) -> None:
    assert restore_from_checkpoint(state, IDENTITY, Range(0, 600))
    assert (state.database / "untrusted").exists()
    assert_as_of_the_checkpoint(state.database)


def assert_as_of_the_checkpoint(database: Path) -> None:
    store = open_store(database)
    assert store.metadata == stamp_of(1)
    assert store.positions() == list(zip(NAMES, (300, 500), strict=False))
    assert known(store, *GENERATIONS, NEVER_SEEN) == plain_values(*GENERATIONS[:2])
    store.close()


def test_the_record_of_a_checkpoint_is_read_and_written_as_it_was() -> None:
    golden = (FILES / "state" / CHECKPOINT / "checkpoint.json").read_bytes()
    record = CheckpointRecord.model_validate_json(golden)
    assert (record.stream, record.partition, record.id_source) == (
        IDENTITY.stream,
        IDENTITY.partition,
        IDENTITY.id_source,
    )
    assert (record.input_offset, record.output_position, record.keys) == (
        FIRST_OFFSET + 500,
        500,
        500,
    )
    assert (record.created, record.window_seconds) == (CHECKPOINT_TIME, 694_923.456)
    assert (record.model_dump_json(by_alias=True, indent=2) + "\n").encode() == golden


@pytest.fixture
def scene(bucket: TestBucket, tmp_path: Path) -> Scene:
    """A bucket with the golden snapshot."""
    root = FILES / "bucket"
    for path in root.rglob("*"):
        if path.is_file():
            key = path.relative_to(root).as_posix()
            bucket.client.put_object(Bucket=bucket.name, Key=key, Body=path.read_bytes())
    return Scene(bucket, tmp_path)


def test_an_empty_volume_is_filled_from_a_snapshot(scene: Scene) -> None:
    scene.restore("golden").run(Event())
    state = scene.target
    assert state.recorded("default/orders", PARTITION) == IDENTITY
    assert contents(state.database) == contents(FILES / "state" / CHECKPOINT / "db")
    assert_as_of_the_checkpoint(state.database)


def test_a_snapshot_shares_its_contents_with_those_of_before(
    scene: Scene, state: StateDirectory
) -> None:
    scene.state.root.mkdir()
    again = scene.upload("again", state.root / CHECKPOINT)
    golden = (FILES / "bucket/default/orders/3/snapshots/golden.json").read_bytes()
    manifest = Manifest.model_validate_json(golden)
    assert (manifest.name, again.files) == ("golden", manifest.files)
    assert scene.bucket.uploaded() == [], "all contents were there"
    assert (manifest.model_dump_json(by_alias=True, indent=2) + "\n").encode() == golden
    key = "default/orders/3/snapshots/again.json"
    written = scene.bucket.client.get_object(Bucket=scene.bucket.name, Key=key)["Body"].read()
    assert written == golden.replace(b'"golden"', b'"again"')


# -- an inverse Bloom store ------------------------------------------------------------------------


def test_tables_are_read_with_all_they_know(files: Path) -> None:
    store = open_table(files / "table", TABLE_SLOTS[1], 18)
    assert [g.name for g in store.generations()] == ["t00000001", "t00000002"]
    assert store.metadata is not None
    assert (store.metadata.output_position, store.metadata.input_offset) == (
        300,
        FIRST_OFFSET + 300,
    )
    found = known(store, *TABLE_ORDERS, NEVER_SEEN)
    expected = plain_values(TABLE_ORDERS[0]) | {
        packed_id(number): stored_value(number, timed=True, hashed=True)
        for number in TABLE_ORDERS[1]
    }
    assert found.items() <= expected.items()
    counts = [len(known(store, numbers)) for numbers in TABLE_ORDERS]
    assert counts == [147, 136], "the others lost their slots to later ids"
    store.close()


def test_tables_are_written_as_they_were(files: Path, tmp_path: Path) -> None:
    write_tables(tmp_path / "again")
    (tmp_path / "again" / MORE).unlink()  # further fields, which the release before ignores
    assert contents(tmp_path / "again") == contents(files / "table")


# -- a bootstrap -----------------------------------------------------------------------------------


def test_an_interrupted_bootstrap_is_continued(files: Path) -> None:
    root = files / "bootstrap"
    progress = load_progress(root / "work" / "progress.json")
    assert progress is not None
    assert (progress.all_read, progress.runs) == (True, 3)
    assert progress.partitions[PARTITION].ranges == 1

    (root / "state").mkdir(exist_ok=True)
    summary = make_bootstrap(root).run()

    assert not summary.restarted
    assert summary.stores[PARTITION].ids == BOOTSTRAP_ORDERS
    state = StateDirectory(root / "state")
    assert state.recorded("default/orders", PARTITION) == IDENTITY
    store = open_store(state.database)
    names = [name for name, _ in store.positions()]
    assert names == ["b00000001", "b00000002", "b00000003", "g00000001"]
    assert store.metadata is not None
    assert store.metadata.output_position == BOOTSTRAP_POSITION
    assert store.generations()[0].first_seen_ms == bootstrap_seen_ms(0)
    found = known(store, range(BOOTSTRAP_ORDERS), NEVER_SEEN)
    assert found == dict.fromkeys(ids(range(BOOTSTRAP_ORDERS)), b"\xff" * 8)
    store.close()


def test_the_progress_of_a_bootstrap_is_written_as_it_was(files: Path) -> None:
    path = files / "bootstrap" / "work" / "progress.json"
    before = path.read_bytes()
    progress = load_progress(path)
    assert progress is not None
    progress.save(path)
    assert path.read_bytes() == before


def test_a_directory_of_landed_records_from_before_batches_were_recorded_is_continued(
    files: Path,
) -> None:
    root = files / "landing"
    before = (root / "output" / ".landing.json").read_bytes()
    check_output(root / "output", root / "checkpoint", "orders-clean", "any")
    with pytest.raises(LandingRefused, match="orders-clean"):
        check_output(root / "output", root / "checkpoint", "another topic", "any")
    write_marker(root / "output", root / "checkpoint", "orders-clean", "any")
    assert (root / "output" / ".landing.json").read_bytes() == before


def test_a_directory_of_landed_records_is_continued(files: Path) -> None:
    output, checkpoint = files / "landing_recorded/output", files / "landing_recorded/checkpoint"
    marker, record = output / ".landing.json", output / ".batches/17.json"
    before = marker.read_bytes(), record.read_bytes()
    check_output(output, checkpoint, "orders-clean", LANDED.topic_id)
    assert recorded_batch(output, 17) == LANDED
    with pytest.raises(LandingRefused, match="created again"):
        check_output(output, checkpoint, "orders-clean", "another")
    marker.unlink()
    record.unlink()
    write_marker(output, checkpoint, "orders-clean", LANDED.topic_id)
    admit_batch(output, checkpoint, files / "staging", 17, LANDED)
    assert (marker.read_bytes(), record.read_bytes()) == before


def test_the_golden_files_are_all_there() -> None:
    """None is lost on the way into a checkout, such as to a list of ignored names."""
    listed = (FILES.parent / "files.sha256").read_text().splitlines()
    found = sorted(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(FILES).as_posix()}"
        for path in FILES.rglob("*")
        if path.is_file()
    )
    assert found == sorted(listed)
