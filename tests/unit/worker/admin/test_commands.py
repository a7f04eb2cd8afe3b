"""What HTTP asks is done by the loop's thread, or not at all."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident

import pytest

from dedupe_crds.status.worker import CheckpointStatus, IdStatus, UploadStatus
from dedupe_worker.admin.commands import Command, CommandQueue
from dedupe_worker.errors import DiskFull


class RecordingStore:
    """Notes who asked what."""

    def __init__(self) -> None:
        self.forgotten: list[list[bytes]] = []
        self.thread = 0

    def checkpoint(self) -> CheckpointStatus | None:
        raise DiskFull("no room")

    def snapshot(self, name: str) -> UploadStatus | None:
        raise DiskFull(name)

    def lookup(self, raw_ids: list[bytes]) -> list[IdStatus]:
        raise DiskFull(str(raw_ids))

    def forget(self, raw_ids: list[bytes]) -> int:
        self.thread = get_ident()
        self.forgotten.append(raw_ids)
        return len(raw_ids)


def forget(number: int) -> Command:
    return lambda store: store.forget([b"x"] * number)


def run_until_done(queue: CommandQueue, store: RecordingStore, asked: int) -> None:
    deadline = time.monotonic() + 10
    while len(store.forgotten) < asked and time.monotonic() < deadline:
        queue.run_waiting(store)


def test_commands_are_carried_out_in_the_loops_thread_and_answered_in_the_callers() -> None:
    queue, store = CommandQueue(), RecordingStore()
    with ThreadPoolExecutor(4) as callers:
        answers = [callers.submit(queue.call, forget(n), 10.0) for n in range(1, 5)]
        run_until_done(queue, store, asked=4)
        assert [each.result(10) for each in answers] == [1, 2, 3, 4]
    assert store.thread == get_ident()


def test_a_failure_is_raised_to_the_caller_and_not_in_the_loop() -> None:
    queue, store = CommandQueue(), RecordingStore()

    def both(it: RecordingStore) -> None:
        it.forget([])
        it.checkpoint()

    with ThreadPoolExecutor(1) as caller:
        answer = caller.submit(queue.call, both, 10.0)  # type: ignore[arg-type] # its own store
        run_until_done(queue, store, asked=1)
        with pytest.raises(DiskFull, match="no room"):
            answer.result(10)


def test_a_command_that_nobody_waits_for_any_more_is_not_carried_out() -> None:
    queue, store = CommandQueue(), RecordingStore()
    with pytest.raises(TimeoutError):
        queue.call(lambda it: it.forget([b"late"]), 0.01)
    queue.run_waiting(store)
    assert store.forgotten == []
