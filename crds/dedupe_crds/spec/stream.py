"""`DedupeStream`: one topic to deduplicate, as its user writes it.

The schema, the reference and the checks of a manifest are all made from these models; a field's
description is what `kubectl explain` shows.
"""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator

from dedupe_crds.base import Model
from dedupe_crds.names import StreamName
from dedupe_crds.quantity import MIB
from dedupe_crds.rules import never_changes, rule
from dedupe_crds.spec.store import (
    TABLE_BYTES_CEL,
    Snapshots,
    Storage,
    Store,
    slot_bytes,
)
from dedupe_crds.spec.topics import (
    Conflicts,
    Delivery,
    Duplicates,
    IdSource,
    Input,
    Kafka,
    Late,
    Mode,
    Output,
)
from dedupe_crds.spec.worker import Failover, Worker

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


def _table_bytes(store: Store, duplicates: Duplicates, conflicts: Conflicts) -> float:
    """What a table of fixed size takes at least; 0 where there is none."""
    table = store.inverse_bloom
    return table.least_bytes(slot_bytes(duplicates, conflicts)) if table else 0.0


def _table_fits(times: float) -> str:
    """CEL for: the volume has so many times what a table of fixed size takes at least."""
    return (
        "!has(self.store.inverseBloom) || !isQuantity(string(self.storage.size)) || "
        f"quantity(string(self.storage.size)).asApproximateFloat() >= {times} * {TABLE_BYTES_CEL}"
    )


_OTHER_ID = (
    "make another stream with an output topic of its own instead, and bring past ids along by "
    "`dedupe bootstrap` (docs/bootstrap.md)"
)
_OWN_TOPIC = "must differ from spec.input.topic, spec.output.topic, and that with -filters or -owners behind it"


def _own_topic_cel(field: str) -> str:
    return (
        f"!has(self.{field}.topic) || !(self.{field}.topic in [self.input.topic, self.output.topic, "
        "self.output.topic + '-filters', self.output.topic + '-owners'])"
    )


def _is_own_topic(topic: str | None, source: Input, target: Output) -> bool:
    notes = (f"{target.topic}-filters", f"{target.topic}-owners")
    return topic not in (source.topic, target.topic, *notes)


_OWNERS = (
    "writes to spec.output.topic with -owners behind it, which must have at most 249 characters and "
    "differ from spec.input.topic"
)


def _owners_topic_cel(field: str) -> str:
    return (
        f"!has(self.{field}.topic) || size(self.output.topic) <= 242 && "
        "self.output.topic + '-owners' != self.input.topic"
    )


def _has_owners_topic(topic: str | None, source: Input, target: Output) -> bool:
    return topic is None or (len(target.topic) <= 242 and f"{target.topic}-owners" != source.topic)


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
    id: Annotated[IdSource, never_changes("the id", instead=_OTHER_ID)] = Field(
        description="What makes two messages the same."
    )
    store: Store = Field(default=Store(), description="How ids that were seen are remembered.")
    duplicates: Duplicates = Field(default=Duplicates(), description="What becomes of a duplicate.")
    conflicts: Conflicts = Field(
        default=Conflicts(),
        description="What becomes of a message that has the id of another and not its content.",
    )
    late: Late = Field(
        default=Late(), description="What becomes of a message that is too old to be judged."
    )
    delivery: Delivery = Field(
        default=Delivery.EXACTLY_ONCE,
        description="ExactlyOnce: by Kafka's transactions. AtLeastOnce: for brokers without them; a "
        "crash may pass some messages on again, and none is lost.",
    )
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
        below="topic",
        cel="!has(self.output.filter) || self.output.topic + '-filters' != self.input.topic",
        says="with -filters behind it must differ from spec.input.topic: a worker would read the "
        "filters that it wrote",
    )
    @staticmethod
    def _filters_are_not_the_input(source: Input, target: Output) -> bool:
        return target.filter is None or f"{target.topic}-filters" != source.topic

    @rule(
        "input",
        "output",
        "duplicates",
        below="topic",
        cel=_own_topic_cel("duplicates"),
        says=_OWN_TOPIC,
    )
    @staticmethod
    def _duplicates_have_their_own_topic(
        source: Input, target: Output, duplicates: Duplicates
    ) -> bool:
        return _is_own_topic(duplicates.topic, source, target)

    @rule(
        "input",
        "output",
        "conflicts",
        below="topic",
        cel=_own_topic_cel("conflicts"),
        says=_OWN_TOPIC,
    )
    @staticmethod
    def _conflicts_have_their_own_topic(
        source: Input, target: Output, conflicts: Conflicts
    ) -> bool:
        return _is_own_topic(conflicts.topic, source, target)

    @rule(
        "input",
        "output",
        "duplicates",
        below="policy",
        cel=_owners_topic_cel("duplicates"),
        says=_OWNERS,
    )
    @staticmethod
    def _owners_have_a_topic_to_tell_of_duplicates(
        source: Input, target: Output, duplicates: Duplicates
    ) -> bool:
        return _has_owners_topic(duplicates.topic, source, target)

    @rule(
        "input",
        "output",
        "conflicts",
        below="policy",
        cel=_owners_topic_cel("conflicts"),
        says=_OWNERS,
    )
    @staticmethod
    def _owners_have_a_topic_to_tell_of_conflicts(
        source: Input, target: Output, conflicts: Conflicts
    ) -> bool:
        return _has_owners_topic(conflicts.topic, source, target)

    @rule(
        "input",
        "output",
        "late",
        below="topic",
        cel=_own_topic_cel("late"),
        says=_OWN_TOPIC,
    )
    @staticmethod
    def _late_messages_have_their_own_topic(source: Input, target: Output, late: Late) -> bool:
        return _is_own_topic(late.topic, source, target)

    @rule(
        "store",
        "storage",
        below="size",
        cel="self.store.type == 'InverseBloom' || !isQuantity(string(self.storage.size)) || "
        "!isQuantity(string(self.store.window.maxBytes)) || "
        "quantity(string(self.storage.size)).asApproximateFloat() >= "
        "1.25 * quantity(string(self.store.window.maxBytes)).asApproximateFloat()",
        says="must be at least 1.25 times spec.store.window.maxBytes, or the volume would run full",
    )
    @staticmethod
    def _volume_holds_the_window(store: Store, storage: Storage) -> bool:
        return store.inverse_bloom is not None or 4 * storage.size >= 5 * store.window.max_bytes

    @rule(
        "store",
        "duplicates",
        "conflicts",
        "storage",
        below="size",
        cel=_table_fits(1.25),
        says="must be at least 1.25 times what spec.store.inverseBloom takes, or the volume would run full",
    )
    @staticmethod
    def _volume_holds_the_table(
        store: Store, duplicates: Duplicates, conflicts: Conflicts, storage: Storage
    ) -> bool:
        return storage.size >= 1.25 * _table_bytes(store, duplicates, conflicts)

    @rule(
        "store",
        "storage",
        "snapshots",
        cel="!has(self.snapshots) || self.store.type == 'InverseBloom' || "
        "!isQuantity(string(self.storage.size)) || "
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
        held = snapshots is None or store.inverse_bloom is not None
        return held or 4 * storage.size >= 9 * store.window.max_bytes

    @rule(
        "store",
        "duplicates",
        "conflicts",
        "storage",
        "snapshots",
        cel=f"!has(self.snapshots) || {_table_fits(2.25)}",
        says="needs spec.storage.size to be at least 2.25 times what spec.store.inverseBloom takes: a "
        "volume holds the newest checkpoint beside the store",
    )
    @staticmethod
    def _volume_holds_a_checkpoint_of_the_table(
        store: Store,
        duplicates: Duplicates,
        conflicts: Conflicts,
        storage: Storage,
        snapshots: Snapshots | None,
    ) -> bool:
        held = _table_bytes(store, duplicates, conflicts)
        return snapshots is None or storage.size >= 2.25 * held

    @rule(
        "store",
        "duplicates",
        "conflicts",
        "worker",
        below="resources",
        cel="!has(self.store.inverseBloom) || !has(self.worker.resources) || "
        "!has(self.worker.resources.limits) || !('memory' in self.worker.resources.limits) || "
        "!isQuantity(string(self.worker.resources.limits['memory'])) || "
        "quantity(string(self.worker.resources.limits['memory'])).asApproximateFloat() >= "
        f"{TABLE_BYTES_CEL} + 100663296.0",
        says="must leave 96Mi of limits.memory beside what spec.store.inverseBloom takes",
    )
    @staticmethod
    def _memory_holds_the_table(
        store: Store, duplicates: Duplicates, conflicts: Conflicts, worker: Worker
    ) -> bool:
        limit = worker.resources.memory_limit
        held = _table_bytes(store, duplicates, conflicts)
        return store.inverse_bloom is None or limit is None or limit >= held + 96 * MIB

    @property
    def table_bytes(self) -> float:
        """What the table of a partition takes at least; 0 with a store of another type."""
        return _table_bytes(self.store, self.duplicates, self.conflicts)


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
