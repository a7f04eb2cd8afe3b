"""Labels and annotations of streams, and users' requests in annotations.

The plugin writes a request into an annotation; the operator answers it once, in the stream's status.
"""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field, StrictBool, StrictInt, ValidationError

from dedupe_crds.base import Model
from dedupe_crds.names import ObjectName
from dedupe_crds.spec.stream import GROUP

RECONCILE: Final = f"{GROUP}/reconcile"
RESTORE: Final = f"{GROUP}/restore"
OUTPUT_TOPIC: Final = "OutputTopic"
BEST_AVAILABLE: Final = "BestAvailable"

_Partition = Annotated[StrictInt, Field(ge=0, le=65535)]
_Model = TypeVar("_Model", bound=Model)
_Request = Annotated[str, Field(min_length=1, max_length=100)]


class ReconcileRequest(Model):
    """Request to reconcile stores with the output topic.

    The answer is the `comparison` in each partition's status.
    """

    request: _Request = Field(
        description="Id of the request, such as the time; it must differ from that of the previous request."
    )
    partitions: list[_Partition] = Field(default=[], description="Partition numbers. Default: all.")
    full: StrictBool = Field(
        default=False,
        description="Full reconcile: compare the whole store in both directions, not only the tail.",
    )


class RestoreRequest(Model):
    """Request to restore a partition to a new volume.

    The answer is the `restore` in its status, with the same `request`.
    """

    request: _Request = Field(
        description="Id of the request, such as the time; it must differ from those of earlier requests for the "
        "partition."
    )
    partition: _Partition = Field(description="Partition number.")
    source: ObjectName | Literal["OutputTopic", "BestAvailable"] = Field(
        description="Name of the DedupeSnapshot, OutputTopic to rebuild the store from the output topic, or "
        "BestAvailable: the newest usable snapshot, else the output topic."
    )

    @property
    def snapshot(self) -> str | None:
        """Return the name of the requested snapshot, None if no certain one is requested."""
        return None if self.source in {OUTPUT_TOPIC, BEST_AVAILABLE} else self.source


def is_outdated(request: str, created: datetime) -> bool:
    """Return whether a request was made before its stream was created.

    A stream that is created again from a copy of itself, such as a backup, has the requests of its predecessor. The
    plugin's requests are times; of another id this is not known. A minute is allowed for clocks that differ.

    >>> is_outdated("2026-11-01T10:00:00.000+00:00", datetime.fromisoformat("2026-11-01T12:00:00+00:00"))
    True
    >>> is_outdated("again", datetime.fromisoformat("2026-11-01T12:00:00+00:00"))
    False
    """
    try:
        made = datetime.fromisoformat(request)
    except ValueError:
        return False
    return made.tzinfo is not None and made < created - timedelta(minutes=1)


def reconcile_request(annotations: Mapping[str, str]) -> ReconcileRequest | None:
    """Return the request in a stream's annotations; None if there is no valid one."""
    return _read(ReconcileRequest, annotations.get(RECONCILE))


def restore_requests(annotations: Mapping[str, str]) -> list[RestoreRequest]:
    """Return the valid requests in a stream's annotations, in order.

    The annotation has a list of requests, or a single one.
    """
    try:
        found = json.loads(annotations.get(RESTORE, "[]"))
    except (ValueError, RecursionError):  # the latter for deep nesting
        return []
    entries = found if isinstance(found, list) else [found]
    read = (_read(RestoreRequest, json.dumps(entry)) for entry in entries)
    return [request for request in read if request is not None]


def restores_text(requests: Sequence[RestoreRequest]) -> str:
    """Return the annotation with these requests.

    A single one has the form that earlier releases read.
    """
    entries = [request.model_dump(mode="json", by_alias=True) for request in requests]
    return json.dumps(entries[0] if len(entries) == 1 else entries)


def pending_restore(
    requests: Iterable[RestoreRequest], partition: int, answered: Container[str | None]
) -> RestoreRequest | None:
    """Return the next request of a partition; `answered` are ids of requests.

    The requests before an answered one are answered, too. Only the claims remember what is answered, so none is
    repeated because the claim that it made was deleted.
    """
    pending = None
    for request in requests:
        if request.partition != partition:
            continue
        pending = None if request.request in answered else pending or request
    return pending


def _read(model: type[_Model], text: str | None) -> _Model | None:
    if text is None:
        return None
    try:
        return model.model_validate_json(text)
    except ValidationError:
        return None


STREAM: Final = f"{GROUP}/stream"
"""Label of every object of a stream."""
PARTITION: Final = f"{GROUP}/partition"
"""Label of every object of one partition."""
ROUTERS_OF: Final = f"{GROUP}/routers-of"
"""Label of a stream's router pods, in place of STREAM: all that selects workers selects by that one."""
PAUSE: Final = f"{GROUP}/pause-reconciliation"
RESTART: Final = f"{GROUP}/restart"
