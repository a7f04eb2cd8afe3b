"""What HTTP asks of the loop's thread: done between two transactions, the only moment the store is at rest."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore
from typing import Any, Final, Protocol

from dedupe_crds.status.worker import CheckpointStatus, IdStatus, UploadStatus


class StoreCommands(Protocol):
    """What can be asked of a running worker."""

    def checkpoint(self) -> CheckpointStatus | None: ...  # noqa: D102 (see checkpoint.py)
    def snapshot(self, name: str) -> UploadStatus | None: ...  # noqa: D102 (see s3/keeper.py)
    def lookup(self, raw_ids: list[bytes]) -> list[IdStatus]: ...  # noqa: D102 (see desk.py)
    def forget(self, raw_ids: list[bytes]) -> int: ...  # noqa: D102 (see Store.forget)


_CALLERS: Final = 4

Command = Callable[[StoreCommands], Any]


class CommandQueue:
    """Commands from any thread to the loop's."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Command, Future[Any]]] = SimpleQueue()
        # Callers that wait must leave HTTP threads for the probes.
        self._places = BoundedSemaphore(_CALLERS)

    def call(self, command: Command, timeout_seconds: float) -> Any:  # noqa: ANN401 (whatever the command returns)
        """Have a command carried out; raises what it raises, or TimeoutError if the loop does not come to it."""
        if not self._places.acquire(blocking=False):
            raise TimeoutError("other commands are waiting")
        result: Future[Any] = Future()
        self._waiting.put((command, result))
        try:
            return result.result(timeout_seconds)
        except TimeoutError:
            result.cancel()  # not begun: the loop passes it over
            raise
        finally:
            self._places.release()

    def run_waiting(self, target: StoreCommands) -> None:
        """Carry out what is waiting (the loop's thread calls this)."""
        while True:
            try:
                command, result = self._waiting.get_nowait()
            except Empty:
                return
            if not result.set_running_or_notify_cancel():
                continue
            try:
                result.set_result(command(target))
            except Exception as error:  # noqa: BLE001 (it is the caller's, and raised there)
                result.set_exception(error)
