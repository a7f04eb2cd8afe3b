"""Reconciles that a test asks a worker for, and what it does to a store behind the worker's back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from dedupe_crds.status.worker import ComparisonStatus
from dedupe_worker.component_factory import Parts
from dedupe_worker.config import load_config
from dedupe_worker.store.api import IdStore
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream

TOKEN = "a token for this test"  # noqa: S105 # it opens nothing else


def admin(directory: Path) -> Sequence[str | Path]:
    """The arguments with which a worker takes admin calls."""
    path = directory / "token"
    path.write_text(TOKEN)
    return ("--admin-token-file", path)


def post(worker: WorkerProcess, path: str, body: object = None) -> httpx.Response:
    """An admin call."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = f"http://{worker.endpoint()}{path}"
    return httpx.post(url, json=body, headers=headers, timeout=30)


def ask(worker: WorkerProcess, request: str, *, full: bool = True) -> None:
    """Ask for a reconcile, which is taken in."""
    answer = post(worker, "/reconcile", {"request": request, "full": full})
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text


def answered(worker: WorkerProcess, request: str) -> ComparisonStatus:
    """Wait until that is done, and the worker at work again."""

    def done() -> ComparisonStatus | None:
        found = worker.status().comparison
        return found if found and found.request == request and found.done else None

    found = worker.wait_until(done, f"reconcile {request} is done")
    worker.wait_until_ready()
    assert found is not None
    return found


def reconcile(worker: WorkerProcess, request: str, *, full: bool = True) -> ComparisonStatus:
    """Ask for a reconcile and wait for its answer."""
    ask(worker, request, full=full)
    return answered(worker, request)


@contextmanager
def opened_store(stream: TestStream, state_dir: Path, partition: int = 0) -> Iterator[IdStore]:
    """The store of a worker that does not run, to be changed behind its back."""
    config = load_config(
        manifest=stream.manifest, partition=partition, state_dir=state_dir, kafka_properties=None
    )
    store = Parts(config).store()
    try:
        yield store
        store.settle()
    finally:
        store.close()
