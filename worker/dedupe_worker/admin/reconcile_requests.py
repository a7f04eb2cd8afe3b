"""Requests for a reconcile with the output topic, one at a time.

The HTTP API accepts them; a new session runs each (recovery/on_demand.py). Invariant: the result is kept on the volume,
so the same request, also after a restart, is answered and not repeated. A request that a crash interrupted is lost: the
client must send it again.
"""

from pathlib import Path
from threading import Lock

from pydantic import ValidationError

from dedupe_crds.status.worker import ComparisonStatus
from dedupe_worker.status import WorkerState
from dedupe_worker.store.state_dir import write_atomically


class ReconcileRunning(Exception):
    """Another requested reconcile is not done yet."""


class ReconcileRequests:
    """The last request: HTTP threads `ask`; the session's thread answers it.

    The worker's state shows it from its begin, and still after its end.
    """

    def __init__(self, worker_state: WorkerState, answer: Path) -> None:
        self._worker_state = worker_state
        self._answer = answer
        self._lock = Lock()
        worker_state.comparison = _read(answer)

    def ask(self, request: str, *, full: bool) -> ComparisonStatus:
        """Accept a request; a repeated request is answered with its present status.

        Raises ReconcileRunning.
        """
        with self._lock:
            last = self._worker_state.comparison
            if last is not None and last.request == request:
                return last
            if last is not None and not last.done:
                raise ReconcileRunning(last.request)
            self._worker_state.comparison = asked = ComparisonStatus(request=request, full=full)
            return asked

    @property
    def waiting(self) -> ComparisonStatus | None:
        """Return the request that is waiting or running."""
        last = self._worker_state.comparison
        return None if last is None or last.done else last

    def show(self, status: ComparisonStatus) -> None:
        """Show how far the waiting request is."""
        self._worker_state.comparison = status

    def answer(self, status: ComparisonStatus) -> None:
        """Record the result of the waiting request.

        Raises DiskFull if it can't be written; the request is done nevertheless.
        """
        status = status.model_copy(update={"done": True})
        try:
            write_atomically(self._answer, status.model_dump_json(by_alias=True, indent=2) + "\n")
        finally:
            self._worker_state.comparison = status


def _read(path: Path) -> ComparisonStatus | None:
    """Return the last result; None if there is none, or it can't be read."""
    try:
        return ComparisonStatus.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
