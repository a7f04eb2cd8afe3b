"""Reconciles that HTTP asks of the worker: one at a time, each done by a session of its own.

The answer is kept on the volume, so that asking again with the same text, after a restart too, does nothing again.
A request that a crash has cut off is forgotten: whoever wants its answer asks again.
"""

from pathlib import Path
from threading import Lock

from pydantic import ValidationError

from dedupe_crds.status.worker import ComparisonStatus
from dedupe_worker.status import Board
from dedupe_worker.store.state_dir import write_atomically


class ReconcileRunning(Exception):
    """Another reconcile that was asked for is not done yet."""


class ReconcileRequests:
    """HTTP threads `ask`; the session's thread looks for what is `waiting` and answers it.

    The board shows the last request from the beginning to after its end.
    """

    def __init__(self, board: Board, answer: Path) -> None:
        self._board = board
        self._answer = answer
        self._lock = Lock()
        board.comparison = _read(answer)

    def ask(self, request: str, *, full: bool) -> ComparisonStatus:
        """Take a request in; one that is known already is answered with how it stands. Raises ReconcileRunning."""
        with self._lock:
            last = self._board.comparison
            if last is not None and last.request == request:
                return last
            if last is not None and not last.done:
                raise ReconcileRunning(last.request)
            self._board.comparison = asked = ComparisonStatus(request=request, full=full)
            return asked

    @property
    def waiting(self) -> ComparisonStatus | None:
        """The request that is to be done, or being done."""
        last = self._board.comparison
        return None if last is None or last.done else last

    def show(self, status: ComparisonStatus) -> None:
        """Tell how far the waiting request is."""
        self._board.comparison = status

    def answer(self, status: ComparisonStatus) -> None:
        """The waiting request is done. Raises DiskFull if that can't be kept; it is done nevertheless."""
        status = status.model_copy(update={"done": True})
        try:
            write_atomically(self._answer, status.model_dump_json(by_alias=True, indent=2) + "\n")
        finally:
            self._board.comparison = status


def _read(path: Path) -> ComparisonStatus | None:
    """None if there is none, or nothing that can be read: then it is asked for again."""
    try:
        return ComparisonStatus.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
