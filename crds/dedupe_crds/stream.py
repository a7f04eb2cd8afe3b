"""`DedupeStream`: one topic to deduplicate, as its user writes it.

The schema, the reference and the checks of a manifest are all made from these models; a field's
description is what `kubectl explain` shows.
"""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator

from dedupe_crds.flow import (
    Duplicates,
    IdSource,
    Input,
    Kafka,
    Mode,
    Output,
)
from dedupe_crds.model import Model
from dedupe_crds.names import StreamName
from dedupe_crds.rules import never_changes, rule
from dedupe_crds.store import (
    Snapshots,
    Storage,
    Store,
)
from dedupe_crds.worker import Failover, Worker

GROUP = "dedupestream.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "DedupeStream"

# What the API server adds to metadata, and `kubectl get -o yaml` shows: nothing of the user's.
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
    """The object's metadata, as far as it concerns a stream."""

    name: StreamName = Field(
        description="Name of the stream: lower-case letters, digits and '-', at most 46."
    )
    namespace: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        default="default", description="Namespace of the stream, its Secret and its workers."
    )
    labels: dict[str, str] = Field(default={}, description="Labels of the object.")
    annotations: dict[str, str] = Field(default={}, description="Annotations of the object.")
    uid: str | None = Field(default=None, description="Given by the API server.")

    @model_validator(mode="before")
    @classmethod
    def _without_what_the_api_server_adds(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in _API_SERVER_METADATA}


class Spec(Model):
    """What the user wants."""

    kafka: Kafka = Field(description="The Kafka cluster.")
    input: Input = Field(description="What is read.")
    output: Output = Field(description="What is written.")
    id: Annotated[IdSource, never_changes("the id")] = Field(
        description="What makes two messages the same."
    )
    store: Store = Field(default=Store(), description="How ids that were seen are remembered.")
    duplicates: Duplicates = Field(default=Duplicates(), description="What becomes of a duplicate.")
    mode: Mode = Field(
        default=Mode.ENFORCE,
        description="Enforce: duplicates are removed. Observe: they are only counted, and "
        "everything passes through.",
    )
    storage: Storage = Field(default=Storage(), description="The volume of each partition.")
    snapshots: Snapshots | None = Field(
        default=None, description="Copies of the stores; none are made if absent."
    )
    failover: Failover = Field(
        default=Failover(), description="When to move a partition away from a node."
    )
    worker: Worker = Field(default=Worker(), description="The process for one partition.")
    suspend: StrictBool = Field(
        default=False, description="Stop all workers, and keep their volumes."
    )

    @rule(
        "input",
        "output",
        below="topic",
        cel="self.output.topic != self.input.topic",
        says="must differ from spec.input.topic: a worker would read what it wrote",
    )
    @staticmethod
    def _output_is_not_the_input(source: Input, target: Output) -> bool:
        return target.topic != source.topic

    @rule(
        "input",
        "output",
        "duplicates",
        below="topic",
        cel="!has(self.duplicates.topic) || "
        "!(self.duplicates.topic in [self.input.topic, self.output.topic])",
        says="must differ from spec.input.topic and spec.output.topic",
    )
    @staticmethod
    def _duplicates_have_their_own_topic(
        source: Input, target: Output, duplicates: Duplicates
    ) -> bool:
        return duplicates.topic not in (source.topic, target.topic)

    @rule(
        "store",
        "storage",
        below="size",
        cel="!isQuantity(string(self.storage.size)) || "
        "!isQuantity(string(self.store.window.maxBytes)) || "
        "quantity(string(self.storage.size)).asApproximateFloat() >= "
        "1.25 * quantity(string(self.store.window.maxBytes)).asApproximateFloat()",
        says="must be at least 1.25 times spec.store.window.maxBytes, or the volume would run full",
    )
    @staticmethod
    def _volume_holds_the_window(store: Store, storage: Storage) -> bool:
        return 4 * storage.size >= 5 * store.window.max_bytes

    @rule(
        "store",
        "storage",
        "snapshots",
        cel="!has(self.snapshots) || !isQuantity(string(self.storage.size)) || "
        "!isQuantity(string(self.store.window.maxBytes)) || "
        "quantity(string(self.storage.size)).asApproximateFloat() >= "
        "2.25 * quantity(string(self.store.window.maxBytes)).asApproximateFloat()",
        says="needs spec.storage.size to be at least 2.25 times spec.store.window.maxBytes: a volume "
        "holds the newest checkpoint beside the store",
    )
    @staticmethod
    def _volume_holds_a_checkpoint(
        store: Store, storage: Storage, snapshots: Snapshots | None
    ) -> bool:
        return snapshots is None or 4 * storage.size >= 9 * store.window.max_bytes


class DedupeStream(Model):
    """A Kafka topic without its duplicates: each message of the input passes exactly once."""

    api_version: Literal["dedupestream.io/v1alpha1"] = Field(description="Version of this API.")
    kind: Literal["DedupeStream"] = Field(description="What this object is.")
    metadata: Metadata = Field(description="Its name and namespace.")
    spec: Spec = Field(description="What the user wants.")

    @model_validator(mode="before")
    @classmethod
    def _without_status(cls, given: object) -> object:
        # Status is the operator's word about a stream, and no part of what the user asks for.
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name != "status"}
