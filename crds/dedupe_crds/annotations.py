"""Labels and annotations of streams, and users' requests in annotations.

The plugin writes a request into an annotation; the operator answers it once, in the stream's status.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field, StrictBool, StrictInt, ValidationError

from dedupe_crds.base import Model
from dedupe_crds.names import ObjectName
from dedupe_crds.spec.stream import GROUP

RECONCILE: Final = f"{GROUP}/reconcile"
RESTORE: Final = f"{GROUP}/restore"
OUTPUT_TOPIC: Final = "OutputTopic"

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
        description="Id of the request, such as the time; it must differ from that of the previous request."
    )
    partition: _Partition = Field(description="Partition number.")
    source: ObjectName | Literal["OutputTopic"] = Field(
        description="Name of the DedupeSnapshot, or OutputTopic to rebuild the store from the output topic."
    )


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


def restore_request(annotations: Mapping[str, str]) -> RestoreRequest | None:
    """Return the request in a stream's annotations; None if there is no valid one."""
    return _read(RestoreRequest, annotations.get(RESTORE))


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
