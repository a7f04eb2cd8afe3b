"""Reconciles that were asked for are done once, whatever happens to the process."""

from pathlib import Path

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_worker.admin.reconcile_requests import ReconcileRequests, ReconcileRunning
from dedupe_worker.status import WorkerState
from tests.unit.crds.manifests import MINIMAL


def started(path: Path) -> tuple[WorkerState, ReconcileRequests]:
    worker_state = WorkerState(DedupeStream.model_validate(MINIMAL), 3)
    return worker_state, ReconcileRequests(worker_state, path / "reconcile.json")


def test_an_answer_outlives_the_process(tmp_path: Path) -> None:
    _, requests = started(tmp_path)
    asked = requests.ask("one", full=True)
    assert requests.waiting == asked
    requests.answer(asked.model_copy(update={"added": 3}))
    assert requests.waiting is None

    worker_state, requests = started(tmp_path)
    assert worker_state.comparison is not None
    assert (worker_state.comparison.added, worker_state.comparison.done) == (3, True)
    assert requests.ask("one", full=True) == worker_state.comparison
    assert requests.waiting is None
    requests.ask("two", full=False)
    assert requests.waiting is not None


def test_one_that_was_cut_off_is_asked_for_anew(tmp_path: Path) -> None:
    _, requests = started(tmp_path)
    requests.show(requests.ask("one", full=True).model_copy(update={"records": 9}))
    worker_state, requests = started(tmp_path)
    assert worker_state.comparison is None
    assert requests.ask("one", full=True).records == 0
    assert requests.waiting is not None


def test_one_at_a_time(tmp_path: Path) -> None:
    _, requests = started(tmp_path)
    requests.ask("one", full=True)
    with pytest.raises(ReconcileRunning, match="one"):
        requests.ask("two", full=False)
    assert requests.waiting is not None
    assert requests.waiting.request == "one"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"request": 1}', b'{"full": true}'])
def test_an_answer_that_can_t_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "reconcile.json").write_bytes(content)
    worker_state, _ = started(tmp_path)
    assert worker_state.comparison is None


def test_an_answer_that_can_t_be_kept_is_given_all_the_same(tmp_path: Path) -> None:
    _, requests = started(tmp_path / "not there")
    asked = requests.ask("one", full=True)
    with pytest.raises(FileNotFoundError):
        requests.answer(asked)
    assert requests.waiting is None
