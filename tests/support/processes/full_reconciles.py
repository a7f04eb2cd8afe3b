"""Request reconciles from a worker, and change a store while its worker is down."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from dedupe_crds.status.worker import ComparisonStatus
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import load_config
from dedupe_worker.store.rocksdb import Store
from tests.support.processes.admin_calls import post
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream


def ask(worker: WorkerProcess, request: str, *, full: bool = True) -> None:
    """Request a reconcile, and assert that it is accepted."""
    answer = post(worker, "/reconcile", request=request, full=full)
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text


def answered(worker: WorkerProcess, request: str) -> ComparisonStatus:
    """Wait until a reconcile is done and the worker ready; return its result."""

    def done() -> ComparisonStatus | None:
        found = worker.status().comparison
        return found if found and found.request == request and found.done else None

    found = worker.wait_until(done, f"reconcile {request} is done")
    worker.wait_until_ready()
    assert found is not None
    return found


def reconcile(worker: WorkerProcess, request: str, *, full: bool = True) -> ComparisonStatus:
    """Request a reconcile, and wait for its result."""
    ask(worker, request, full=full)
    return answered(worker, request)


@contextmanager
def opened_store(stream: TestStream, state_dir: Path, partition: int = 0) -> Iterator[Store]:
    """Open the store of a worker that is not running, to change it."""
    config = load_config(
        manifest=stream.manifest, partition=partition, state_dir=state_dir, kafka_properties=None
    )
    store = ComponentFactory(config).make_store()
    try:
        assert isinstance(store, Store), "the other type has no generations to change"
        yield store
        store.flush_all()
    finally:
        store.close()
