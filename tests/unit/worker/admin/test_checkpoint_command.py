"""What the loop is held up for is counted, as one of its stages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_worker.admin import commands as module
from dedupe_worker.admin.commands import AdminCommands
from dedupe_worker.config import WorkerConfig
from dedupe_worker.errors import DiskFull
from dedupe_worker.status import WorkerState
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.stores import open_store, random_ids, remember

IDENTITY = Identity(stream="default/orders", partition=3, input_topic_id="i", output_topic_id="o")
STREAM = DedupeStream.model_validate(MINIMAL)


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path)


@pytest.fixture
def store(state: StateDirectory) -> Iterator[Store]:
    opened = open_store(state.database)
    yield opened
    opened.close()


@pytest.fixture
def worker_state() -> WorkerState:
    return WorkerState(STREAM, 3)


@pytest.fixture
def commands(state: StateDirectory, store: Store, worker_state: WorkerState) -> AdminCommands:
    config = WorkerConfig(stream=STREAM, partition=3, state=state, properties={})
    return AdminCommands(config, IDENTITY, store, worker_state, None, read_foreign=lambda: True)


def test_the_time_of_all_checkpoints_is_added_up(
    commands: AdminCommands, store: Store, worker_state: WorkerState
) -> None:
    remember(store, random_ids(1, 1000), position=1000)
    assert commands.checkpoint()
    first = worker_state.stage_seconds["checkpoint"]
    assert commands.checkpoint()
    assert 0 < first < worker_state.stage_seconds["checkpoint"]


def test_one_that_fails_took_its_time_as_well(
    commands: AdminCommands, worker_state: WorkerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DiskFull("no room")

    monkeypatch.setattr(module, "make_checkpoint", full)
    with pytest.raises(DiskFull):
        commands.checkpoint()
    assert worker_state.stage_seconds["checkpoint"] > 0
