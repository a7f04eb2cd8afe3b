"""An operator that is gone right after one of its writes, as if it was killed there.

What it asks a worker to do counts as well as what it writes to the API server.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Final

from dedupe_operator import process
from dedupe_operator.kubernetes.cached_api import CachedApi
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import Resource
from dedupe_operator.worker_client import WorkerClient

STOPPED: Final = 86
"""The exit code of an operator that stopped where it was to."""


class _Writes:
    """Ends the process when a write is done, and before anything can come of its answer."""

    def __init__(self) -> None:
        self._lock = RLock()
        self.left = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        with self._lock:
            yield
            self.left -= 1
            if self.left == 0:
                os._exit(STOPPED)


_writes = _Writes()


class StoppingApi(CachedApi):
    """Counts what is written to the API server; a write that is refused is none."""

    def apply(self, wanted: Object, *, subresource: str | None = None) -> Object:
        with _writes.one():
            return super().apply(wanted, subresource=subresource)

    def create(self, wanted: Object) -> Object:
        with _writes.one():
            return super().create(wanted)

    def patch_metadata(self, resource: Resource, live: Object, changes: Object) -> Object:
        with _writes.one():
            return super().patch_metadata(resource, live, changes)

    def delete(
        self, resource: Resource, live: Object, *, orphan: bool = False, force: bool = False
    ) -> None:
        with _writes.one():
            super().delete(resource, live, orphan=orphan, force=force)


class StoppingWorkers(WorkerClient):
    """Counts what workers are asked to do."""

    def post(
        self, pod: Object | None, path: str, body: Mapping[str, object], admin_token: str
    ) -> object:
        with _writes.one():
            return super().post(pod, path, body, admin_token)


def stop_after(writes: int) -> None:
    """Have this process end with STOPPED after so many writes from now on."""
    _writes.left = writes
    process.CachedApi = StoppingApi  # type: ignore[attr-defined] # the seam
    process.WorkerClient = StoppingWorkers  # type: ignore[attr-defined] # the other one
