"""A worker is killed at each step, and its successors' output is judged."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from signal import SIGKILL

import httpx
import pytest

from dedupe_crds.status.exit_code import ExitCode
from tests.faults.seed import SEED
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Message
from tests.support.crashes.aftermath import (
    fault_met,
    finish,
    judged,
    reconciled,
    wait_until_killed,
    wait_until_open,
    wait_until_passed,
)
from tests.support.crashes.inner_crashes import FaultWorkers, InnerCrash, Point
from tests.support.crashes.steps import Crash, Step
from tests.support.layers import matrix
from tests.support.patience import wait_for
from tests.support.processes.loopback import HTTP
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]
AnyCrash = Crash | InnerCrash

RECORDS = 20_000
TOKEN = "a token for this test"  # noqa: S105 # it opens nothing else

SMALL_TRANSACTIONS = {"tuning": {"maxBatchRecords": 500, "maxTransactionRecords": 1_000}}
SMALL_MEMTABLES = {"window": {"maxBytes": "16Mi", "generations": 16}}
SMALL_WINDOW_BYTES = 256 * 1024
SEALS_BYTES = 2 * 1024 * 1024  # in 16 generations: sealed often, and large enough for the stream
NEVER = 1_000_000
YEAR_2000_MS = 946_684_800_000
YEAR_2100_MS = 4_102_444_800_000


@cache
def messages(near_share: float = 0.5) -> Sequence[Message]:
    """Yield messages, every 20th without id: only the input offset prevents a repeat."""
    traffic = retries(SEED, RECORDS, near_share=near_share, value_bytes=100)
    return [
        replace(message, key=None) if place % 20 == 0 else message
        for place, message in enumerate(traffic)
    ]


def filled(stream: TestStream, traffic: Sequence[Message]) -> TestStream:
    stream.send(traffic)
    return stream


def crash(step: Step | Point, time: int, *, window_bytes: int | None = None) -> AnyCrash:
    if isinstance(step, Step):
        return Crash(step, time)
    return InnerCrash(point=step, time=time, window_bytes=window_bytes)


def start(
    stream: TestStream,
    workers: FaultWorkers,
    crash: AnyCrash,
    *,
    arguments: Sequence[str | Path] = (),
) -> WorkerProcess:
    if isinstance(crash, Crash):
        return workers.start(stream, crash=crash, arguments=arguments)
    return workers.start_towards(stream, crash, arguments=arguments)


def crash_at(stream: TestStream, workers: FaultWorkers, crash: AnyCrash) -> None:
    """Kill a worker at a step, on the state of its predecessor."""
    worker = start(stream, workers, crash)
    wait_until_killed(worker)
    if isinstance(crash, InnerCrash):
        assert fault_met(worker)["point"] == crash.point


@pytest.mark.parametrize(
    ("step", "leaves_open"),
    [
        matrix(Step.BEFORE_PRODUCE, None),  # an earlier batch may be in the transaction
        matrix(Step.BEFORE_COMMIT, True),
        (Point.OFFSETS_SENT, True),
        matrix(Point.COMMITTED, False),
        (Step.BEFORE_STORE_WRITE, False),
        matrix(Step.AFTER_STORE_WRITE, False),
    ],
)
def test_killed_between_two_steps_of_the_loop(
    streams: CreateStream, workers: FaultWorkers, step: Step | Point, leaves_open: bool | None
) -> None:
    stream = filled(streams(worker=SMALL_TRANSACTIONS), messages())
    for time in (1, 9):
        crash_at(stream, workers, crash(step, time))
        if leaves_open is not None:
            wait_until_open(stream, is_open=leaves_open)
    wait_for(
        lambda: not judge(stream.raw(), stream.clean(), key_id, up_to=stream.progress()).lost,
        "readers see all that is committed",
    )
    remembered = len(stream.clean())
    [last] = finish(stream, workers)
    judged(stream)
    assert reconciled(last)["records"] == remembered, "none was on disk: all come from the output"


@pytest.mark.parametrize(
    "point", [matrix(Point.RECORDS_SENT), Point.OFFSETS_SENT, matrix(Point.COMMITTED)]
)
def test_killed_in_a_commit_with_all_its_store_on_disk(
    streams: CreateStream, workers: FaultWorkers, point: Point
) -> None:
    """RocksDB may flush at any time: an id must not precede its record in the output."""
    stream = filled(streams(worker=SMALL_TRANSACTIONS), messages())
    for time in (1, 9):
        crash_at(stream, workers, InnerCrash(point=point, time=time, flushed=True))
    finish(stream, workers)
    judged(stream)


def test_killed_with_only_the_newest_generation_on_disk(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """Its metadata also covers older generations, which must be on disk by then."""
    stream = filled(streams(worker=SMALL_TRANSACTIONS, store=SMALL_MEMTABLES), messages())
    crash = InnerCrash(point=Point.RECORDS_SENT, time=14, flushed=True, window_bytes=SEALS_BYTES)
    crash_at(stream, workers, crash)
    [last] = finish(stream, workers)
    judged(stream)
    assert reconciled(last)["records"] < RECORDS // 4, "most was on disk"


@pytest.mark.parametrize("time", [matrix(1), 4])
def test_killed_during_a_flush(streams: CreateStream, workers: FaultWorkers, time: int) -> None:
    stream = filled(streams(worker=SMALL_TRANSACTIONS, store=SMALL_MEMTABLES), messages())
    crash_at(stream, workers, Crash(Step.DURING_FLUSH, time))
    remembered = len(stream.clean())
    [last] = finish(stream, workers)
    judged(stream)
    if time > 1:
        assert reconciled(last)["reason"] == "Tail"
        assert reconciled(last)["records"] < remembered, "the flushes before had ended"


@pytest.mark.parametrize(
    "point",
    [
        matrix(Point.SEALING),
        Point.SEALED,
        matrix(Point.SUCCESSOR_BEGUN),
        matrix(Point.DROPPING),
        matrix(Point.DROPPED),
    ],
)
def test_killed_while_generations_come_and_go(
    streams: CreateStream, workers: FaultWorkers, point: Point
) -> None:
    """The window is far smaller than the stream, but longer than repeats are apart."""
    stream = filled(streams(worker=SMALL_TRANSACTIONS), messages(near_share=1.0))
    for time in (1, 2):
        crash_at(stream, workers, crash(point, time, window_bytes=SMALL_WINDOW_BYTES))
    never = InnerCrash(point=point, time=NEVER, window_bytes=SMALL_WINDOW_BYTES)
    last = workers.start_towards(stream, never)  # an ordinary window would drop nothing
    wait_until_passed(stream, last)
    judged(stream)
    assert reconciled(last)["reason"] == "Tail", "what was sealed before is of use"


@pytest.mark.parametrize(
    ("point", "is_on_disk"), [(Point.FLUSHING_AT_END, False), matrix(Point.CLOSING, True)]
)
def test_killed_while_it_stops(
    streams: CreateStream, workers: FaultWorkers, point: Point, is_on_disk: bool
) -> None:
    half = RECORDS // 2
    stream = filled(streams(), messages()[:half])
    worker = workers.start_towards(stream, InnerCrash(point=point))
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    assert worker.sigterm() == -SIGKILL
    assert fault_met(worker)["point"] == point
    remembered = len(stream.clean())
    filled(stream, messages()[half:])
    [last] = finish(stream, workers)
    judged(stream)
    assert reconciled(last)["records"] == (0 if is_on_disk else remembered)


@pytest.mark.parametrize(
    ("time", "step"),
    [
        matrix(1, Point.CHECKPOINT_BEGUN),
        matrix(1, Step.DURING_CHECKPOINT),
        matrix(2, Point.CHECKPOINT_BEGUN),
        (2, Step.DURING_CHECKPOINT),
    ],
)
def test_killed_during_a_checkpoint(
    streams: CreateStream, workers: FaultWorkers, tmp_path: Path, step: Step | Point, time: int
) -> None:
    half = RECORDS // 2
    stream = filled(streams(), messages()[:half])
    token = tmp_path / "token"
    token.write_text(TOKEN)
    admin = ("--admin-token-file", token)
    worker = start(stream, workers, crash(step, time), arguments=admin)
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    for _ in range(time - 1):
        assert post_checkpoint(worker).status_code == HTTPStatus.OK
    whole = checkpoints(worker)
    with pytest.raises(httpx.TransportError):
        post_checkpoint(worker)
    wait_until_killed(worker)
    assert len(checkpoints(worker)) == len(whole) + 1, "it was killed during a checkpoint"

    filled(stream, messages()[half:])
    last = workers.start(stream, arguments=admin)
    wait_until_passed(stream, last)
    judged(stream)
    assert checkpoints(last) == whole, "what was half done is gone, what was done is kept"
    last.wait_until_ready()
    assert post_checkpoint(last).status_code == HTTPStatus.OK
    [now_whole] = checkpoints(last)
    assert {path.name for path in now_whole.iterdir()} == {"checkpoint.json", "db"}


def checkpoints(worker: WorkerProcess) -> list[Path]:
    return sorted((worker.state_dir / "checkpoints").glob("*"))


def post_checkpoint(worker: WorkerProcess) -> httpx.Response:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return HTTP.post(f"http://{worker.endpoint()}/checkpoint", headers=headers, timeout=30)


def test_killed_while_it_reads_the_tail(streams: CreateStream, workers: FaultWorkers) -> None:
    stream = filled(streams(), messages())
    worker = workers.start(stream)
    wait_until_passed(stream, worker)
    worker.sigkill()
    for time in (1, 2):  # a batch has 10 000 records
        crash_at(stream, workers, Crash(Step.DURING_RECONCILE, time))
    remembered = len(stream.clean())
    filled(stream, messages())
    [last] = finish(stream, workers)
    judged(stream)
    assert reconciled(last)["records"] == remembered, "all came from the output"


def damage_manifest(state: Path) -> None:
    [manifest] = (state / "db").glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[: manifest.stat().st_size // 2])


def lose_identity(state: Path) -> None:
    (state / "identity.json").unlink()


@pytest.mark.parametrize(
    ("damage", "crashes"),
    [
        (damage_manifest, [(Point.DISCARDING, 1), (Step.DURING_RECONCILE, 1)]),
        matrix(damage_manifest, [(Step.DURING_RECONCILE, 2), (Step.DURING_RECONCILE, 1)]),
        matrix(lose_identity, [(Point.DISCARDED, 1), (Point.IDENTITY_RECORDED, 1)]),
        matrix(lose_identity, [(Point.DISCARDING, 1), (Step.DURING_RECONCILE, 2)]),
    ],
)
def test_killed_while_it_rebuilds(
    streams: CreateStream,
    workers: FaultWorkers,
    damage: Callable[[Path], None],
    crashes: Sequence[tuple[Step | Point, int]],
) -> None:
    most = RECORDS * 3 // 4
    stream = filled(streams(), messages()[:most])
    worker = workers.start(stream)
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    assert worker.sigterm() == ExitCode.OK
    damage(worker.state_dir)
    for step, time in crashes:
        crash_at(stream, workers, crash(step, time))
    filled(stream, messages()[most:])
    remembered = len(stream.clean())
    [last] = finish(stream, workers)
    judged(stream)
    assert reconciled(last)["records"] == remembered


def test_a_producer_s_clock_does_not_shorten_what_is_remembered(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """A replay of old records has the full window: ids age from when they were seen."""
    clocks = (1, YEAR_2000_MS, YEAR_2100_MS)
    traffic = [
        replace(message, timestamp_ms=clocks[place * len(clocks) // 3_000])
        for place, message in enumerate(messages()[:3_000])
    ]
    stream = filled(streams(), traffic)
    [first] = finish(stream, workers)
    first.sigkill()
    [second] = finish(stream, workers)
    for _ in range(2):  # ageing comes after a transaction
        wait_until_passed(filled(stream, traffic), second)
    second.sigkill()
    filled(stream, traffic)
    finish(stream, workers)
    judged(stream)
