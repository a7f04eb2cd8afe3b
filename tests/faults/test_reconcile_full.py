"""A full reconcile makes the whole store agree with the output topic."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import CheckpointStatus, ComparisonStatus
from dedupe_ids.extract import pack_id
from tests.faults.seed import SEED
from tests.support.checker.record import Message
from tests.support.crashes.aftermath import (
    assert_undisturbed,
    fault_met,
    judged,
    logged,
    passed_and_stopped,
    wait_until_killed,
    wait_until_passed,
)
from tests.support.crashes.inner_crashes import FaultWorkers, InnerCrash, Point
from tests.support.crashes.steps import Crash, Step
from tests.support.layers import matrix
from tests.support.processes.admin_calls import admin_arguments, post
from tests.support.processes.full_reconciles import ask, opened_store, reconcile
from tests.support.processes.processes import WorkerProcess
from tests.support.snapshots.volumes import small_volume
from tests.support.traffic.streams import TestStream
from tests.support.traffic.topic_changes import delete_records
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]

RECORDS = 4_000
SMALL_TRANSACTIONS = {"tuning": {"maxBatchRecords": 500, "maxTransactionRecords": 1_000}}
SMALL_WINDOW_BYTES = 256 * 1024
NEVER = 1_000_000
LOST, INVENTED = 100, 60


@cache
def messages(start: int = 0, count: int = RECORDS) -> Sequence[Message]:
    return list(retries(SEED, count, start=start, value_bytes=100, near_share=1.0))


def packed(keys: Sequence[bytes | None]) -> list[bytes]:
    return sorted({pack_id(key) for key in keys if key})


def strangers() -> list[bytes]:
    """Return ids whose messages were never sent."""
    return packed([message.key for message in messages(start=RECORDS)])[:INVENTED]


def tampered_with(stream: TestStream, worker: WorkerProcess) -> int:
    """Remove ids from the store and add others; return the number of output records."""
    clean = stream.clean()
    with opened_store(stream, worker.state_dir) as store:
        assert store.forget(packed([record.key for record in clean[:LOST]])) == LOST
        store.amend(store.positions()[-1][0], added=strangers())
    return len(clean)


def assert_exactly_once_after(stream: TestStream, worker: WorkerProcess) -> None:
    """Send everything again, and new messages; assert exactly once."""
    stream.send(messages())
    stream.send(messages(start=RECORDS))
    wait_until_passed(stream, worker)
    judged(stream)


@pytest.mark.proof
def test_what_was_lost_is_added_and_what_was_invented_is_removed(
    streams: CreateStream, workers: FaultWorkers, tmp_path: Path
) -> None:
    stream = streams(worker=SMALL_TRANSACTIONS)
    stopped = passed_and_stopped(stream, workers, messages())
    records = tampered_with(stream, stopped)
    worker = workers.start(stream, arguments=admin_arguments(tmp_path))
    worker.wait_until_ready()
    expected = ComparisonStatus(
        request="one", full=True, done=True, records=records, added=LOST, removed=INVENTED
    )
    assert reconcile(worker, "one") == expected
    assert_exactly_once_after(stream, worker)

    again = post(worker, "/reconcile", request="one", full=True)
    assert ComparisonStatus.model_validate_json(again.content) == expected
    assert worker.sigterm() == ExitCode.OK
    worker = workers.start(stream, arguments=admin_arguments(tmp_path))
    worker.wait_until_ready()
    ask(worker, "one")
    assert worker.status().comparison == expected, "the answer is kept"
    after = reconcile(worker, "two")
    assert (after.added, after.removed) == (0, 0)
    assert after.records == len(stream.clean())
    assert {line["request"] for line in logged(worker, "full reconcile starts")} == {"two"}
    status = worker.status()
    assert status.reconcile is not None
    assert (status.reconcile.reason, status.reconcile.remaining) == ("Full", 0)


def test_one_that_is_not_full_reads_the_tail_and_leaves_the_rest(
    streams: CreateStream, workers: FaultWorkers, tmp_path: Path
) -> None:
    stream = streams()
    stream.send(messages())
    worker = workers.start(stream, arguments=admin_arguments(tmp_path))
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    found = reconcile(worker, "tail", full=False)
    assert (found.added, found.removed, found.full) == (0, 0, False)
    assert logged(worker, "full reconcile starts") == []
    assert len(logged(worker, "caught up")) >= 2, "each in its own session"
    assert_undisturbed(worker)
    stream.send(messages())
    wait_until_passed(stream, worker)
    judged(stream)


def test_ids_whose_records_are_no_longer_retained_are_kept(
    streams: CreateStream, workers: FaultWorkers, tmp_path: Path
) -> None:
    stream = streams()
    stopped = passed_and_stopped(stream, workers, messages())
    clean = stream.clean()
    cut = len(clean) // 2
    delete_records(stream, stream.output_topic, clean[cut].offset)
    with opened_store(stream, stopped.state_dir) as store:
        store.forget(packed([record.key for record in clean[-LOST:]]))
        store.amend("g00000001", added=strangers())
    worker = workers.start(stream, arguments=admin_arguments(tmp_path))
    found = reconcile(worker, "one")
    assert found == ComparisonStatus(
        request="one",
        full=True,
        done=True,
        records=len(clean) - cut,
        added=LOST,
        unverifiable=cut + INVENTED,
    )
    stream.send(messages())
    wait_until_passed(stream, worker)
    assert len(stream.clean()) == len(clean) - cut, "none of them passes again"


def test_ids_that_the_window_has_given_up_stay_given_up(
    streams: CreateStream, workers: FaultWorkers, tmp_path: Path
) -> None:
    """The window is far smaller than the stream; retention deleted some records."""
    stream = streams(worker=SMALL_TRANSACTIONS)
    never = InnerCrash(point=Point.DROPPED, time=NEVER, window_bytes=SMALL_WINDOW_BYTES)
    stream.send(messages(count=20_000))
    worker = workers.start_towards(stream, never, arguments=admin_arguments(tmp_path))
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    clean = stream.clean()
    answer = (
        post(worker, "/checkpoint").raise_for_status().content
    )  # by the loop itself, as it is now
    remembered = CheckpointStatus.model_validate_json(answer).keys
    assert 0 < remembered < len(clean) // 2

    found = reconcile(worker, "whole")
    assert found.aged_out == len(clean) - remembered
    assert (found.added, found.removed, found.unverifiable) == (0, 0, 0)

    low = clean[-remembered // 2].offset
    delete_records(stream, stream.output_topic, low)
    assert worker.sigterm() == ExitCode.OK
    with opened_store(stream, worker.state_dir) as store:
        generations = store.positions()
        oldest, newest = generations[0][0], generations[-1][0]
        assert oldest != newest
        store.amend(oldest, added=strangers()[:10])
        store.amend(newest, added=strangers()[10:])
    worker = workers.start_towards(stream, never, arguments=admin_arguments(tmp_path))
    found = reconcile(worker, "cut")
    assert (found.added, found.aged_out) == (0, 0)
    assert found.removed == INVENTED - 10, "the newest generation's records are all there"
    assert found.unverifiable >= 10 + remembered // 2
    assert found.unverifiable < remembered


@pytest.mark.parametrize(
    ("crash", "left"),
    [
        # The first that reads the output is the comparison.
        matrix(Crash(Step.DURING_RECONCILE, 1), (LOST, INVENTED)),
        matrix(InnerCrash(point=Point.AMENDING), (LOST, INVENTED)),
        (InnerCrash(point=Point.AMENDING, time=2), (LOST, INVENTED)),
        matrix(InnerCrash(point=Point.AMENDING, time=2, flushed=True), (0, INVENTED)),
        matrix(InnerCrash(point=Point.SETTLED), (0, 0)),
    ],
    ids=["reading", "nothing changed", "added", "added and on disk", "all on disk"],
)
def test_killed_in_the_midst_of_it(
    streams: CreateStream,
    workers: FaultWorkers,
    tmp_path: Path,
    crash: Crash | InnerCrash,
    left: tuple[int, int],
) -> None:
    stream = streams()
    stopped = passed_and_stopped(stream, workers, messages())
    tampered_with(stream, stopped)
    arguments = admin_arguments(tmp_path)
    if isinstance(crash, Crash):
        worker = workers.start(stream, crash=crash, arguments=arguments)
    else:
        worker = workers.start_towards(stream, crash, arguments=arguments)
    worker.wait_until_ready()
    ask(worker, "one")
    wait_until_killed(worker)
    if isinstance(crash, InnerCrash):
        assert fault_met(worker)["point"] == crash.point
    assert (worker.state_dir / "comparison").exists()

    worker = workers.start(stream, arguments=arguments)
    worker.wait_until_ready()
    assert not (worker.state_dir / "comparison").exists(), "its room is given back at once"
    assert worker.status().comparison is None, "it was not done"
    found = reconcile(worker, "one")
    assert (found.added, found.removed) == left
    assert_exactly_once_after(stream, worker)


def test_without_room_it_is_given_up_and_the_stream_goes_on(
    streams: CreateStream, workers: FaultWorkers, tmp_path: Path
) -> None:
    stream = streams()
    stopped = passed_and_stopped(stream, workers, messages())
    tampered_with(stream, stopped)
    worker = workers.start(stream, arguments=admin_arguments(tmp_path))
    worker.wait_until_ready()
    # Its files alone have no room: on the volume the worker's own would run out of it by chance.
    with small_volume(worker.state_dir / "comparison", 1 << 14) as volume:
        found = reconcile(worker, "one")
        assert found.error is not None
        assert found.error.startswith("DiskFull: ")
        assert list(volume.path.iterdir()) == []
    assert (found.added, found.removed) == (0, 0)
    assert 'reason="DiskFull"' in worker.get("/metrics").text
    assert_undisturbed(worker)

    found = reconcile(worker, "two")
    assert (found.added, found.removed, found.error) == (LOST, INVENTED, None)
    assert_exactly_once_after(stream, worker)
    assert worker.is_running
