"""Check the state after a fault, and process the rest of a stream."""

import signal
from collections.abc import Iterable
from typing import Any

import psutil

from dedupe_crds.status.exit_code import ExitCode
from tests.support.checker.checker import Verdict, judge
from tests.support.checker.history import end_offsets
from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Message
from tests.support.crashes.inner_crashes import MARKER, FaultWorkers
from tests.support.patience import wait_for
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream


def wait_until_passed(
    stream: TestStream, *workers: WorkerProcess, deadline_seconds: float = 180.0
) -> None:
    """Wait until all messages that are in the input now are committed."""
    ends = stream.ends()

    def passed() -> bool:
        committed = stream.progress()
        return all(committed.get(partition, 0) >= end for partition, end in ends.items())

    workers[0].wait_until(passed, f"{ends} is committed", deadline_seconds=deadline_seconds)
    stream.settle()


def finish(stream: TestStream, workers: FaultWorkers, partitions: int = 1) -> list[WorkerProcess]:
    """Start ordinary workers, and wait until they have processed the rest."""
    started = [workers.start(stream, partition) for partition in range(partitions)]
    wait_until_passed(stream, *started)
    return started


def passed_and_stopped(
    stream: TestStream, workers: FaultWorkers, messages: Iterable[Message]
) -> WorkerProcess:
    """Send messages, have an ordinary worker process them, and stop it."""
    stream.send(messages)
    [worker] = finish(stream, workers)
    assert worker.sigterm() == ExitCode.OK
    return worker


def judged(stream: TestStream) -> Verdict:
    """Judge the whole stream, and assert exactly once."""
    verdict = judge(stream.raw(), stream.clean(), key_id)
    verdict.assert_exactly_once()
    return verdict


def wait_until_killed(worker: WorkerProcess, *, deadline_seconds: float = 90.0) -> None:
    """Wait until a worker has ended, and assert that SIGKILL ended it."""
    code = worker.wait_until_ended(deadline_seconds=deadline_seconds)
    assert code == -signal.SIGKILL, f"ended with {code}; see {worker.log_path}"


def wait_until_frozen(pid: int) -> None:
    """Wait until a process is stopped (SIGSTOP)."""
    process = psutil.Process(pid)
    wait_for(lambda: process.status() == psutil.STATUS_STOPPED, f"process {pid} is stopped")


def fault_met(worker: WorkerProcess) -> dict[str, Any]:
    """Return the log line of the fault that the worker has met."""
    [marker] = logged(worker, MARKER)
    return marker


def logged(worker: WorkerProcess, event: str) -> list[dict[str, Any]]:
    """Return the worker's log lines with an event."""
    return [line for line in worker.logs() if line.get("event") == event]


def reconciled(worker: WorkerProcess) -> dict[str, Any]:
    """Return the log line of the only reconcile: `reason`, `records` and so on."""
    [line] = logged(worker, "caught up")
    return line


def wait_until_open(stream: TestStream, *, is_open: bool, partition: int = 0) -> None:
    """Wait until the output has an open transaction, or until it has none.

    Kafka completes a transaction in the background after it has confirmed the commit.
    """
    wait_for(
        lambda: _has_open_transaction(stream, partition) == is_open,
        f"the output has {'an' if is_open else 'no'} open transaction",
    )


def _has_open_transaction(stream: TestStream, partition: int) -> bool:
    stable, highest = (
        end_offsets(stream.bootstrap_servers, stream.output_topic, [partition], committed=committed)
        for committed in (True, False)
    )
    return stable != highest
