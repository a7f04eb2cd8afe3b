"""Model of the metadata of a `DedupeStream`."""

from typing import Annotated

from pydantic import Field, model_validator

from dedupe_crds.base import Model
from dedupe_crds.names import StreamName

# Fields that the API server adds and `kubectl get -o yaml` shows; a user does not write them.
_API_SERVER_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
    }
)


class Metadata(Model):
    """The fields of the object's metadata that a stream needs."""

    name: StreamName = Field(
        description="Name of the stream: lower-case letters, digits and '-', at most 46."
    )
    namespace: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        default="default", description="Namespace of the stream, its Secret and its workers."
    )
    labels: dict[str, str] = Field(default={}, description="Labels of the object.")
    annotations: dict[str, str] = Field(default={}, description="Annotations of the object.")
    uid: str | None = Field(default=None, description="UID, set by the API server.")

    @model_validator(mode="before")
    @classmethod
    def _without_what_the_api_server_adds(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in _API_SERVER_METADATA}
