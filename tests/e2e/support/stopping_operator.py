"""An operator that is gone right after one of its writes, as if it was killed there.

`python -m tests.e2e.support.stopping_operator WRITES OPERATOR-ARGUMENT...`: of the writes to the API server counted
from its start, the last one it makes is number WRITES.
"""

import os
import sys
from threading import Lock
from typing import Final

from dedupe_operator import process
from dedupe_operator.cli import main
from dedupe_operator.kubernetes_api import KubernetesApi, Resource
from dedupe_operator.labels import Object

STOPPED: Final = 86
"""The exit code of an operator that stopped where it was to."""


class StoppingApi(KubernetesApi):
    """Ends the process when a write is done, and before anything can come of its answer."""

    writes_left = 0
    _lock = Lock()

    def apply(self, wanted: Object, *, subresource: str | None = None) -> Object:
        with self._lock:
            answer = super().apply(wanted, subresource=subresource)
            self._count()
        return answer

    def create(self, wanted: Object) -> Object:
        with self._lock:
            answer = super().create(wanted)
            self._count()
        return answer

    def delete(self, resource: Resource, live: Object, *, orphan: bool = False) -> None:
        with self._lock:
            super().delete(resource, live, orphan=orphan)
            self._count()

    def _count(self) -> None:
        StoppingApi.writes_left -= 1
        if StoppingApi.writes_left == 0:
            os._exit(STOPPED)


if __name__ == "__main__":
    StoppingApi.writes_left = int(sys.argv.pop(1))
    process.KubernetesApi = StoppingApi  # type: ignore[attr-defined] # the seam
    main()
