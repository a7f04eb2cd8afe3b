"""Stores behind their output topic: an older copy, or a restored checkpoint."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.faults.seed import SEED
from tests.support.checker.record import Message
from tests.support.crashes.aftermath import (
    assert_undisturbed,
    fault_met,
    finish,
    judged,
    logged,
    passed_and_stopped,
    reconciled,
    wait_until_killed,
    wait_until_passed,
)
from tests.support.crashes.inner_crashes import FaultWorkers, InnerCrash, Point
from tests.support.processes.admin_calls import admin_arguments, post
from tests.support.processes.processes import WorkerProcess
from tests.support.snapshots.damage import cut_off, files_of, flip_a_byte
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]

RECORDS = 6_000
Damage = Callable[[WorkerProcess], object]


def messages() -> Sequence[Message]:
    return list(retries(SEED, RECORDS, value_bytes=100))


def test_a_store_put_back_reads_what_came_after_it_and_no_more(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """Yield repeats from before the copy, between copy and loss, and after the loss."""
    stream = streams()
    third = RECORDS // 3
    worker = passed_and_stopped(stream, workers, messages()[:third])
    copy = worker.state_dir.with_name("copy")
    shutil.copytree(worker.state_dir, copy)
    before = len(stream.clean())
    worker = passed_and_stopped(stream, workers, messages()[third : 2 * third])
    missed = len(stream.clean()) - before
    shutil.rmtree(worker.state_dir)
    shutil.copytree(copy, worker.state_dir)

    stream.send(messages())
    [worker] = finish(stream, workers)
    judged(stream)
    assert (reconciled(worker)["reason"], reconciled(worker)["records"]) == ("Tail", missed)


@dataclass(frozen=True)
class Halves:
    """Return a stream whose worker made a checkpoint halfway, and stopped at the end.

    `tail` records came after the checkpoint. Both halves are on disk, each flushed at the end of a session.
    """

    worker: WorkerProcess
    total: int
    tail: int


@pytest.fixture
def stream(streams: CreateStream) -> TestStream:
    return streams()


@pytest.fixture
def halves(stream: TestStream, workers: FaultWorkers, tmp_path: Path) -> Halves:
    half = RECORDS // 2
    stream.send(messages()[:half])
    worker = workers.start(stream, arguments=admin_arguments(tmp_path))
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    assert post(worker, "/checkpoint").status_code == HTTPStatus.OK
    at_checkpoint = len(stream.clean())
    assert worker.sigterm() == 0
    worker = passed_and_stopped(stream, workers, messages()[half:])
    total = len(stream.clean())
    assert 0 < at_checkpoint < total
    return Halves(worker, total, total - at_checkpoint)


def started_on(
    damages: dict[str, Damage], stream: TestStream, workers: FaultWorkers, halves: Halves
) -> Iterator[WorkerProcess]:
    """Damage the stopped worker's files, start a worker, and send all again."""
    state = halves.worker.state_dir
    stopped = state.with_name("stopped")
    state.rename(stopped)
    for name, damage in damages.items():
        print(name)
        # With its hard links: otherwise each name would become a separate file.
        subprocess.run(["cp", "-a", stopped, state], check=True)  # noqa: S607 # the system's
        damage(halves.worker)
        stream.send(messages())
        [worker] = finish(stream, workers)
        judged(stream)
        assert not (state / "db.copied").exists()
        assert_undisturbed(worker)
        assert worker.get("/metrics").text.count('reason="StoreCorrupt"') == 1
        yield worker
        worker.sigkill()
        shutil.rmtree(state)


def db(worker: WorkerProcess) -> Path:
    return worker.state_dir / "db"


def checkpoint(worker: WorkerProcess) -> Path:
    [directory] = (worker.state_dir / "checkpoints").iterdir()
    return directory


def newest_sst(worker: WorkerProcess) -> Path:
    """Not in the checkpoint, which is older."""
    newest = files_of(db(worker), "*.sst")[-1]
    assert not (checkpoint(worker) / "db" / newest.name).exists()
    return newest


def shared_sst(worker: WorkerProcess) -> Path:
    """One file under two names."""
    shared = files_of(checkpoint(worker) / "db", "*.sst")[0]
    assert shared.samefile(db(worker) / shared.name)
    return shared


GOOD_CHECKPOINT: dict[str, Damage] = {
    "a newer SST": lambda worker: flip_a_byte(newest_sst(worker), 0.3),
    "a shared SST's name": lambda worker: (db(worker) / shared_sst(worker).name).unlink(),
    "MANIFEST": lambda worker: cut_off(files_of(db(worker), "MANIFEST-*")[0], 0.0),
    "CURRENT": lambda worker: (db(worker) / "CURRENT").unlink(),
}


def test_a_damaged_store_is_taken_from_its_checkpoint(
    stream: TestStream, workers: FaultWorkers, halves: Halves
) -> None:
    for worker in started_on(GOOD_CHECKPOINT, stream, workers, halves):
        how = reconciled(worker)
        assert (how["reason"], how["records"]) == ("Checkpoint", halves.tail)
        assert len(logged(worker, "store is corrupt")) == 1
        assert checkpoint(worker).exists(), "it may be needed again"


def of_another(**fields: object) -> Damage:
    def damage(worker: WorkerProcess) -> None:
        path = checkpoint(worker) / "checkpoint.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
        newest = newest_sst(worker)
        flip_a_byte(newest, 0.3)

    return damage


def both(worker: WorkerProcess) -> None:
    flip_a_byte(shared_sst(worker), 0.3)


def without_files(worker: WorkerProcess) -> None:
    flip_a_byte(newest_sst(worker), 0.3)
    shutil.rmtree(checkpoint(worker) / "db")


BAD_CHECKPOINT: dict[str, Damage] = {
    "damaged in the same file": both,
    "without its files": without_files,
    "that can't be read": of_another(stream=7),
    "of another stream": of_another(stream="default/other"),
    "of another partition": of_another(partition=1),
    "of another topic": of_another(outputTopicId="other"),
    "ahead of the topic": of_another(outputPosition=1 << 40),
    "behind the topic": of_another(outputPosition=-1),
}


@pytest.mark.matrix
def test_one_whose_checkpoint_is_no_better_is_rebuilt(
    stream: TestStream, workers: FaultWorkers, halves: Halves
) -> None:
    for worker in started_on(BAD_CHECKPOINT, stream, workers, halves):
        how = reconciled(worker)
        assert (how["reason"], how["records"]) == ("StoreCorrupt", halves.total)


@pytest.mark.parametrize("is_first", [True, False], ids=["copied", "half discarded"])
def test_killed_while_the_checkpoint_takes_the_store_s_place(
    stream: TestStream, workers: FaultWorkers, halves: Halves, *, is_first: bool
) -> None:
    flip_a_byte(newest_sst(halves.worker), 0.3)
    worker = workers.start_towards(stream, InnerCrash(point=Point.DISCARDING))
    wait_until_killed(worker)
    assert fault_met(worker)["point"] == Point.DISCARDING
    assert (worker.state_dir / "db.copied").exists()
    if is_first:
        shutil.rmtree(db(worker))  # the moment before the copy gets its name
    stream.send(messages())
    [worker] = finish(stream, workers)
    judged(stream)
    if is_first:
        assert (reconciled(worker)["reason"], reconciled(worker)["records"]) == (
            "NewStore",
            halves.total,
        )
    else:
        assert reconciled(worker)["reason"] == "Checkpoint"
    assert not (worker.state_dir / "db.copied").exists()
