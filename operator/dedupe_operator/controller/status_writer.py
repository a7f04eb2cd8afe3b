"""What the operator says of a stream, written when there is something to say."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from dedupe_crds.spec.stream import API_VERSION, KIND
from dedupe_crds.status.stream import StreamStatus
from dedupe_operator.decide.stream_status import Notice, differs_in_figures_only
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import FIELD_MANAGER, Object

_FIGURES_EVERY_SECONDS: Final = 60.0


def read_status(raw: Object) -> StreamStatus:
    """The status of a stream as it stands; an empty one if another version wrote what can't be read."""
    try:
        return StreamStatus.model_validate(raw.get("status") or {})
    except ValidationError:
        return StreamStatus()


class StatusWriter:
    """Writes one stream's status and events."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._figures_at = float("-inf")

    def write(self, raw: Object, old: StreamStatus, new: StreamStatus) -> None:
        """Write a status that says something new; mere figures once a minute. Raises KubernetesError."""
        if new == old:
            return
        now = time.monotonic()
        if differs_in_figures_only(old, new) and now - self._figures_at < _FIGURES_EVERY_SECONDS:
            return
        self._figures_at = now
        metadata = raw["metadata"]
        self._api.apply(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                # With the UID, the status of a stream deleted meanwhile does not go to its namesake.
                "metadata": {name: metadata[name] for name in ("name", "namespace", "uid")},
                "status": new.model_dump(mode="json", by_alias=True, exclude_none=True),
            },
            subresource="status",
        )

    def tell(self, raw: Object, notices: Sequence[Notice]) -> None:
        """Send events. One that can't be sent is no reason to stop: the status says the same."""
        for notice in notices:
            try:
                self._api.create(_event(raw, notice))
            except KubernetesError:
                return


def _event(raw: Object, notice: Notice) -> Object:
    metadata = raw["metadata"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": "Warning" if notice.warning else "Normal",
        "reason": notice.reason,
        "message": notice.message[:1024],
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
