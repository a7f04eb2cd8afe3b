"""What the worker writes itself outlasts a power loss, or its absence does."""

from pathlib import Path
from random import Random
from threading import Event

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.exit_code import ExitCode
from dedupe_kafka.errors import Fenced
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.session import Session
from dedupe_worker.store.checkpoint import restore_from_checkpoint
from dedupe_worker.store.column_families import UNTRUSTED
from dedupe_worker.store.external_sort import make_entries, write_run
from dedupe_worker.store.state_dir import StateDirectory
from dedupe_worker.supervisor import Supervisor
from tests.simulation.disk import Volume
from tests.support.layers import later
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.bootstrap.test_job import DAY_MS, bootstrap, target, write_files
from tests.unit.worker.store.test_checkpoint_restore import IDENTITY, with_checkpoint
from tests.unit.worker.stores import open_store, random_ids, remember

SEEDS = [*range(5), *map(later, range(5, 20))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_was_flushed_is_there(tmp_path: Path, seed: int) -> None:
    volume = Volume(tmp_path / "home", "p0")
    store = open_store(volume.path / "db")
    remember(store, random_ids(1, 100), position=100)
    store.flush()
    left = volume.after_power_loss(Random(seed))
    store.close()
    reopened = open_store(left.path / "db")
    assert reopened.metadata is not None
    reopened.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_checkpoint_that_was_made_is_there(tmp_path: Path, seed: int) -> None:
    volume = Volume(tmp_path / "home", "p0")
    with_checkpoint(volume.path)
    left = StateDirectory(volume.after_power_loss(Random(seed)).path)
    assert restore_from_checkpoint(left, IDENTITY, OffsetRange(0, 1500))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_checkpoint_that_replaced_the_store_is_there_and_read_in_full(
    tmp_path: Path, seed: int
) -> None:
    volume = Volume(tmp_path / "home", "p0")
    state = with_checkpoint(volume.path)
    volume.changes.clear()  # long ago
    assert restore_from_checkpoint(state, IDENTITY, OffsetRange(0, 1500))
    left = StateDirectory(volume.after_power_loss(Random(seed)).path)
    assert (left.database / UNTRUSTED).exists()
    store = open_store(left.database)
    assert store.metadata is not None
    assert store.metadata.output_position == 1000
    store.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_was_written_is_there(tmp_path: Path, seed: int) -> None:
    volume = Volume(tmp_path / "home", "p0")
    path = volume.path / "run-000000.npy"
    write_run(path, make_entries(random_ids(1, 10)))
    assert (volume.after_power_loss(Random(seed)).path / path.name).exists()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bootstrap_that_is_recorded_has_its_store(tmp_path: Path, seed: int) -> None:
    volume = Volume(tmp_path / "home", "p0")
    write_files(volume.path / "files", [DAY_MS] * 10)
    target(volume.path).state.root.mkdir()
    volume.changes.clear()  # long ago
    bootstrap(volume.path)
    left = target(volume.after_power_loss(Random(seed)).path).state
    assert left.database.exists()


@pytest.mark.parametrize("seed", range(5))
def test_a_worker_that_was_fenced_stays_fenced(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fenced(_: Session) -> None:
        raise Fenced("a newer worker")

    monkeypatch.setattr(Session, "run", fenced)
    volume = Volume(tmp_path / "home", "p0")
    stream = DedupeStream.model_validate(MINIMAL)
    state, file = StateDirectory(tmp_path / "state"), volume.path / "fenced"
    config = WorkerConfig(stream=stream, partition=0, state=state, properties={}, fenced_file=file)
    code = Supervisor(ComponentFactory(config), CommandQueue(), Event()).run()
    assert code is ExitCode.FENCED
    assert (volume.after_power_loss(Random(seed)).path / "fenced").exists()
