"""Read and write a stream's status.

The reconciler keeps one `StatusWriter` for each stream. An idle stream causes no writes.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final

from pydantic import ValidationError

from dedupe_crds.spec.stream import API_VERSION, KIND
from dedupe_crds.status.stream import StreamStatus
from dedupe_operator.decide.stream_status import differs_only_in_numbers
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object

_NUMBERS_EVERY_SECONDS: Final = 60.0


def read_status(raw: Object) -> StreamStatus:
    """Return a stream's status; an empty one if it can't be read.

    Fields that a newer operator added are left out.
    """
    try:
        return StreamStatus.model_validate(raw.get("status") or {}, extra="ignore")
    except ValidationError:
        return StreamStatus()


class StatusWriter:
    """Writes one stream's status. `clock` returns seconds and never goes backward."""

    def __init__(self, api: KubernetesApi, *, clock: Callable[[], float] = monotonic) -> None:
        self._api = api
        self._clock = clock
        self._numbers_at = float("-inf")

    def write(self, raw: Object, old: StreamStatus, new: StreamStatus) -> None:
        """Write a changed status; at most once a minute if only numbers changed.

        Raises KubernetesError.
        """
        if new == old:
            return
        now = self._clock()
        if differs_only_in_numbers(old, new) and now - self._numbers_at < _NUMBERS_EVERY_SECONDS:
            return
        self._numbers_at = now
        metadata = raw["metadata"]
        self._api.apply(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                # The UID prevents that a status is written to a new stream of the same name.
                "metadata": {name: metadata[name] for name in ("name", "namespace", "uid")},
                "status": new.model_dump(mode="json", by_alias=True, exclude_none=True),
            },
            subresource="status",
        )
