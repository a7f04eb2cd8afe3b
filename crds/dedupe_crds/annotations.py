"""What a user asks of a living stream, once: written into an annotation of it, answered in its status."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field, StrictBool, StrictInt, ValidationError

from dedupe_crds.base import Model
from dedupe_crds.names import ObjectName

RECONCILE: Final = "dedupestream.io/reconcile"
RESTORE: Final = "dedupestream.io/restore"
OUTPUT_TOPIC: Final = "OutputTopic"

_Partition = Annotated[StrictInt, Field(ge=0, le=65535)]
_Model = TypeVar("_Model", bound=Model)
_Request = Annotated[str, Field(min_length=1, max_length=100)]


class ReconcileRequest(Model):
    """Reconcile stores with the output topic; the answer is each partition's `status.comparison`."""

    request: _Request = Field(
        description="What tells it from the request before, such as the time."
    )
    partitions: list[_Partition] = Field(default=[], description="Which; all of them if empty.")
    full: StrictBool = Field(
        default=False, description="Compare the whole store, both ways, rather than read the tail."
    )


class RestoreRequest(Model):
    """Give a partition a new volume; the answer is its `status.restore`, with the same `request`."""

    request: _Request = Field(
        description="What tells it from the request before, such as the time."
    )
    partition: _Partition = Field(description="Which.")
    source: ObjectName | Literal["OutputTopic"] = Field(
        description="Name of the DedupeSnapshot, or OutputTopic to rebuild from what that holds."
    )


def reconcile_request(annotations: Mapping[str, str]) -> ReconcileRequest | None:
    """The request in a stream's annotations; None if there is none that can be read."""
    return _read(ReconcileRequest, annotations.get(RECONCILE))


def restore_request(annotations: Mapping[str, str]) -> RestoreRequest | None:
    """The request in a stream's annotations; None if there is none that can be read."""
    return _read(RestoreRequest, annotations.get(RESTORE))


def _read(model: type[_Model], text: str | None) -> _Model | None:
    if text is None:
        return None
    try:
        return model.model_validate_json(text)
    except ValidationError:
        return None
