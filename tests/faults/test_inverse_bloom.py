"""A worker with an inverse Bloom store is killed at each step.

Its table is also resized, damaged and restored. Nothing is lost, and only ids that share a slot may pass twice.
"""

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from signal import SIGKILL

import httpx
import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import UploadPhase
from tests.faults.seed import SEED
from tests.support.checker.record import Message
from tests.support.crashes.aftermath import logged, reconciled, wait_until_killed, wait_until_passed
from tests.support.crashes.steps import Crash, Step
from tests.support.crashes.table_crashes import (
    Act,
    TableCrash,
    TableWorkers,
    edit,
    judged_table,
    table,
)
from tests.support.layers import matrix
from tests.support.processes.admin_calls import admin_arguments, post
from tests.support.processes.full_reconciles import reconcile
from tests.support.processes.processes import WorkerProcess
from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import TestBucket
from tests.support.snapshots.damage import cut_off, files_of, flip_a_byte
from tests.support.snapshots.requests import snapshot
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

__all__ = ["bucket", "s3_server"]

CreateStream = Callable[..., TestStream]

RECORDS = 12_000
SLOTS = 1_000_000
SMALL_TRANSACTIONS = {"tuning": {"maxBatchRecords": 500, "maxTransactionRecords": 1_000}}


@cache
def messages() -> Sequence[Message]:
    """Yield messages, every 20th without id: only the input offset prevents a repeat."""
    traffic = retries(SEED, RECORDS, near_share=0.5, value_bytes=100)
    return [
        replace(message, key=None) if place % 20 == 0 else message
        for place, message in enumerate(traffic)
    ]


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[TableWorkers]:
    started = TableWorkers(tmp_path)
    yield started
    started.end_all()


@pytest.fixture
def stream(streams: CreateStream) -> TestStream:
    """Return a stream after its first half was sent."""
    made = streams(store=table(SLOTS), worker=SMALL_TRANSACTIONS)
    made.send(messages()[: RECORDS // 2])
    return made


def killed(stream: TestStream, tables: TableWorkers, crash: Crash | TableCrash) -> None:
    wait_until_killed(tables.start_table(stream, crash))


def finished(stream: TestStream, tables: TableWorkers) -> WorkerProcess:
    """Send the second half, and have a worker process the rest."""
    stream.send(messages()[RECORDS // 2 :])
    worker = tables.start_table(stream)
    wait_until_passed(stream, worker)
    return worker


@pytest.mark.proof
@pytest.mark.parametrize(
    "step",
    [
        matrix(Step.BEFORE_PRODUCE),
        matrix(Step.BEFORE_COMMIT),
        Step.BEFORE_STORE_WRITE,
        matrix(Step.AFTER_STORE_WRITE),
        matrix(Step.DURING_RECONCILE),
    ],
)
def test_killed_between_two_steps_of_the_loop(
    stream: TestStream, tables: TableWorkers, step: Step
) -> None:
    if step is Step.DURING_RECONCILE:
        killed(stream, tables, Crash(Step.AFTER_STORE_WRITE, 5))
    for time in (1, 4) if step is not Step.DURING_RECONCILE else (1, 1):
        killed(stream, tables, Crash(step, time))
    finished(stream, tables)
    judged_table(stream, SLOTS)


@pytest.mark.parametrize(
    "act", [matrix(Act.SEGMENT_BEGUN), matrix(Act.SEGMENT_WRITTEN), Act.MANIFEST_WRITTEN]
)
def test_killed_while_the_table_gets_to_disk(
    streams: CreateStream, tables: TableWorkers, act: Act
) -> None:
    """It has four segments, and a manifest is written after all of them."""
    stream = streams(store=table(SLOTS), worker=SMALL_TRANSACTIONS)
    piece = RECORDS // 8
    for number, time in enumerate((1, 2, 2 if act is Act.MANIFEST_WRITTEN else 7)):
        stream.send(messages()[number * piece : (number + 1) * piece])
        killed(stream, tables, TableCrash(act, time))
    remembered = len(stream.clean())
    worker = finished(stream, tables)
    judged_table(stream, SLOTS)
    how = reconciled(worker)
    assert how["reason"] == "Tail"
    assert how["records"] < remembered, "what a manifest names counts"
    worker.sigkill()
    assert len(files_of(worker.state_dir / "db", "*.seg")) <= 4 + 4 + 1, "others were deleted"


@pytest.mark.matrix
def test_killed_while_it_stops(stream: TestStream, tables: TableWorkers) -> None:
    worker = tables.start_table(stream, TableCrash(Act.SEGMENT_WRITTEN, 3, lazy=True))
    wait_until_passed(stream, worker)
    assert worker.is_running, "it writes nothing of so few ids before it stops"
    assert worker.sigterm() == -SIGKILL
    finished(stream, tables)
    judged_table(stream, SLOTS)


def test_one_that_is_stopped_has_nothing_to_read_again(
    stream: TestStream, tables: TableWorkers
) -> None:
    worker = tables.start_table(stream)
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    assert worker.sigterm() == ExitCode.OK
    how = reconciled(finished(stream, tables))
    assert (how["reason"], how["records"]) == ("Tail", 0)
    judged_table(stream, SLOTS)


@pytest.mark.parametrize(
    "crash", [matrix(TableCrash(Act.SEGMENTS_LINKED)), Crash(Step.DURING_CHECKPOINT)], ids=str
)
def test_killed_during_a_checkpoint(
    stream: TestStream, tables: TableWorkers, tmp_path: Path, crash: Crash | TableCrash
) -> None:
    arguments = admin_arguments(tmp_path)
    worker = tables.start_table(stream, crash, arguments=arguments)
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    with pytest.raises(httpx.TransportError):
        post(worker, "/checkpoint")
    wait_until_killed(worker)
    worker = finished(stream, tables)
    assert list((worker.state_dir / "checkpoints").iterdir()) == [], "it was never whole"
    judged_table(stream, SLOTS)


@pytest.mark.matrix
def test_random_kills_and_another_size_each_time(
    streams: CreateStream, tables: TableWorkers
) -> None:
    """Each kill is at a random act or step, each start with a random number of slots."""
    chance = random.Random(SEED)
    sizes = (300_000, 500_000, SLOTS)
    stream = streams(store=table(SLOTS), worker=SMALL_TRANSACTIONS)
    for number in range(8):
        stream.send(messages()[number * RECORDS // 10 : (number + 1) * RECORDS // 10])
        edit(stream, store=table(chance.choice(sizes)))
        crash: Crash | TableCrash = Crash(
            chance.choice([Step.BEFORE_COMMIT, Step.BEFORE_STORE_WRITE, Step.AFTER_STORE_WRITE])
        )
        if chance.random() < 0.5:
            acts = [Act.SEGMENT_BEGUN, Act.SEGMENT_WRITTEN, Act.MANIFEST_WRITTEN]
            crash = TableCrash(chance.choice(acts))
        killed(stream, tables, crash)
    stream.send(messages()[RECORDS * 8 // 10 :])
    worker = tables.start_table(stream)
    wait_until_passed(stream, worker)
    judged_table(stream, *sizes)


def test_a_smaller_table_remembers_what_the_larger_one_did(
    stream: TestStream, tables: TableWorkers
) -> None:
    worker = tables.start_table(stream)
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    assert worker.sigterm() == ExitCode.OK
    edit(stream, store=table(500_000))
    stream.send(messages()[: RECORDS // 2])
    worker = finished(stream, tables)
    judged_table(stream, SLOTS, 500_000)
    worker.wait_until_ready()
    worker.wait_until(
        lambda: worker.status().window.generations == 2, "the status shows both tables"
    )


def damages() -> dict[str, Callable[[Path], object]]:
    return {
        "a segment with a byte flipped": lambda db: flip_a_byte(files_of(db, "*.seg")[1], 0.4),
        "a segment cut in half": lambda db: cut_off(files_of(db, "*.seg")[0], 0.5),
        "a segment missing": lambda db: files_of(db, "*.seg")[2].unlink(),
        "the manifest cut in half": lambda db: cut_off(db / "tables.json", 0.5),
        "the manifest with a byte flipped": lambda db: flip_a_byte(db / "tables.json", 0.5),
    }


def test_a_damaged_table_is_rebuilt_from_the_output(
    stream: TestStream, tables: TableWorkers
) -> None:
    worker = tables.start_table(stream)
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    assert worker.sigterm() == ExitCode.OK
    whole = worker.state_dir.with_name("whole")
    shutil.copytree(worker.state_dir, whole)
    for name, damage in damages().items():
        shutil.rmtree(worker.state_dir)
        shutil.copytree(whole, worker.state_dir)
        damage(worker.state_dir / "db")
        passed = len(stream.clean())
        stream.send(messages()[: RECORDS // 2])
        worker = tables.start_table(stream)
        wait_until_passed(stream, worker)
        judged_table(stream, SLOTS)
        how = reconciled(worker)
        assert (how["reason"], how["records"]) == ("StoreCorrupt", passed), name
        worker.sigkill()


@pytest.mark.matrix
def test_a_damaged_table_is_replaced_by_its_checkpoint(
    stream: TestStream, tables: TableWorkers, tmp_path: Path
) -> None:
    arguments = admin_arguments(tmp_path)
    worker = tables.start_table(stream, arguments=arguments)
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    assert post(worker, "/checkpoint").status_code == httpx.codes.OK
    of_checkpoint = len(stream.clean())
    stream.send(messages()[RECORDS // 2 :])
    wait_until_passed(stream, worker)
    worker.sigkill()
    cut_off(worker.state_dir / "db" / "tables.json", 0.5)
    passed = len(stream.clean())
    stream.send(messages())
    worker = tables.start_table(stream)
    wait_until_passed(stream, worker)
    judged_table(stream, SLOTS)
    how = reconciled(worker)
    assert (how["reason"], how["records"]) == ("Checkpoint", passed - of_checkpoint)


@pytest.mark.parametrize("after", [table(SLOTS), {"type": "RocksDB"}], ids=["to", "from"])
def test_a_store_of_another_type_is_rebuilt_from_the_output(
    streams: CreateStream, tables: TableWorkers, after: dict[str, object]
) -> None:
    before = {"type": "RocksDB"} if "inverseBloom" in after else table(SLOTS)
    stream = streams(store=before)
    stream.send(messages()[: RECORDS // 2])
    worker = tables.start_table(stream)
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    assert worker.sigterm() == ExitCode.OK
    passed = len(stream.clean())
    edit(stream, store=after)
    stream.send(messages()[: RECORDS // 2])
    worker = finished(stream, tables)
    judged_table(stream, SLOTS)
    assert logged(worker, "store is of another type")
    assert reconciled(worker)["records"] == passed


def test_a_table_goes_to_a_bucket_and_comes_back(
    streams: CreateStream, tables: TableWorkers, bucket: TestBucket, tmp_path: Path
) -> None:
    arguments = admin_arguments(tmp_path)
    stream = streams(store=table(SLOTS), worker=SMALL_TRANSACTIONS, snapshots=bucket.snapshots())
    stream.send(messages()[: RECORDS // 2])
    worker = tables.start_table(stream, arguments=arguments)
    wait_until_passed(stream, worker)
    first = snapshot(worker, "a")
    assert (first.phase, first.error) == (UploadPhase.COMPLETED, None)
    assert first.new_bytes > SLOTS * 24
    again = snapshot(worker, "b")
    assert again.new_bytes < 10_000, "no segment has changed"
    of_snapshot = len(stream.clean())
    stream.send(messages()[RECORDS // 2 :])
    wait_until_passed(stream, worker)
    passed = len(stream.clean())
    worker.sigkill()
    shutil.rmtree(worker.state_dir)

    stream.send(messages())
    worker = tables.start_table(stream, arguments=["--restore-from", "b", *arguments])
    wait_until_passed(stream, worker)
    judged_table(stream, SLOTS)
    how = reconciled(worker)
    assert (how["reason"], how["records"]) == ("Tail", passed - of_snapshot)


def test_a_comparison_with_the_output_is_refused_and_the_stream_goes_on(
    stream: TestStream, tables: TableWorkers, tmp_path: Path
) -> None:
    worker = tables.start_table(stream, arguments=admin_arguments(tmp_path))
    wait_until_passed(stream, worker)
    answer = reconcile(worker, "all")
    assert answer.error is not None
    assert answer.error.startswith("NotComparable: spec.store.type: InverseBloom forgets")
    stream.send(messages()[RECORDS // 2 :])
    wait_until_passed(stream, worker)
    judged_table(stream, SLOTS)


def test_a_table_larger_than_memory_is_refused_with_what_to_do(
    streams: CreateStream, tables: TableWorkers
) -> None:
    store = {"type": "InverseBloom", "inverseBloom": {"memory": "96Gi"}}
    worker = tables.start(streams(store=store, storage={"size": "1Ti"}))
    assert worker.wait_until_ended() == ExitCode.CONFIG
    [line] = logged(worker, "worker ends")
    assert "of memory: give it more (spec.worker.resources)" in line["error"]
