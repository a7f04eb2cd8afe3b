"""A checkpoint and a snapshot of an earlier input topic say nothing of the present one's offsets."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dedupe_worker.snapshots.download import Download
from dedupe_worker.snapshots.manifest import Manifest
from dedupe_worker.store.checkpoint import RECORD, CheckpointRecord, make_checkpoint
from dedupe_worker.store.state_dir import StateDirectory
from tests.simulation.kafka.stream_world import StreamWorld, values

S3 = {"provider": "S3", "s3": {"bucket": "backups"}}
OLD, NEW = values("old", 50), values("new", 120)


@pytest.fixture(params=["this release", "the release before"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StreamWorld:
    """With the checkpoint of a store that has read 50 records of the earlier input topic."""
    world = StreamWorld(tmp_path, topic_ids=True)
    world.write(*OLD)
    with monkeypatch.context() as earlier:
        if request.param == "the release before":  # its stores name no input topic
            earlier.setattr("dedupe_worker.store.metadata.further_fields", lambda _: {})
        world.run()
        checkpoint(world)
    return world


def checkpoint(world: StreamWorld) -> None:
    factory = world.factory()
    state, store = factory.config.state, factory.make_store()
    identity = state.recorded("default/raw", 0)
    assert identity is not None
    made = make_checkpoint(state, identity, store, datetime(2026, 11, 23, tzinfo=UTC))
    assert made is not None
    assert made.input_offset == 50
    store.close()


def newest(world: StreamWorld) -> Path:
    [found] = (world.directory / "state" / "checkpoints").iterdir()
    return found


def test_a_checkpoint_of_an_earlier_input_skips_nothing_of_the_present_one(
    world: StreamWorld,
) -> None:
    """The identity on the volume names the new topic already, and the group has an offset of it."""
    world.cluster.recreate_topic("raw")
    world.write(*NEW[:20])
    world.run()
    (world.directory / "state" / "db" / "CURRENT").write_text("damaged")
    world.write(*NEW[20:])
    status = world.run()
    assert status.reconcile is not None
    assert status.reconcile.reason == "Checkpoint"
    assert world.clean() == [*OLD, *NEW]
    assert status.counts.consumed == 100, "the group's offset of the new topic counts"


def test_a_snapshot_of_an_earlier_input_skips_nothing_of_the_present_one(
    world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = shutil.move(newest(world), world.directory / "snapshot")
    record = CheckpointRecord.model_validate_json((Path(saved) / RECORD).read_bytes())
    shutil.rmtree(world.directory / "state")

    restoring = StateDirectory(world.directory / "state").restoring

    def fetch(*_: object) -> None:
        shutil.copytree(Path(saved) / "db", restoring, dirs_exist_ok=True)

    manifest = Manifest(name="a", record=record, files=[])
    monkeypatch.setattr(Download, "_manifest", lambda _: manifest)
    monkeypatch.setattr(Download, "_fetch_all", fetch)
    world.cluster.recreate_topic("raw")
    world.write(*NEW)
    status = world.run(restore_from="a", snapshots=S3)
    assert status.download is not None
    assert status.reconcile is not None
    assert status.reconcile.reason == "Tail"
    assert world.clean() == [*OLD, *NEW]
    assert "InputTopicReplaced" in {each.reason for each in status.degraded}
