"""`DedupeStream`: the manifest of a topic to deduplicate.

The schema, the reference and the checks of a manifest are generated from these models. A field's description is
what `kubectl explain` shows. Invariant: each rule means the same in CEL and in Python.
"""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator

from dedupe_crds.base import Model
from dedupe_crds.quantity import MIB
from dedupe_crds.rules import never_changes, rule
from dedupe_crds.spec.inverse_bloom import TABLE_BYTES_CEL, table_bytes, table_fits_cel
from dedupe_crds.spec.metadata import Metadata
from dedupe_crds.spec.snapshots import Snapshots
from dedupe_crds.spec.store import Storage, Store
from dedupe_crds.spec.topic_names import (
    OWN_TOPIC,
    OWNERS_TOPIC,
    has_owners_topic,
    is_own_topic,
    own_topic_cel,
    owners_topic_cel,
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

_OTHER_ID = (
    "create another stream with its own output topic instead, and import past ids with "
    "`dedupe bootstrap` (docs/bootstrap.md)"
)


class Spec(Model):
    """The desired state of the stream."""

    kafka: Kafka = Field(description="The Kafka cluster.")
    input: Input = Field(description="The topic to read.")
    output: Output = Field(description="The topic to write.")
    id: Annotated[IdSource, never_changes("the id", instead=_OTHER_ID)] = Field(
        description="The id of a message: messages with the same id are duplicates."
    )
    store: Store = Field(default=Store(), description="The store of known ids, one per partition.")
    duplicates: Duplicates = Field(default=Duplicates(), description="Handling of duplicates.")
    conflicts: Conflicts = Field(
        default=Conflicts(),
        description="Handling of conflicts: messages with a known id but different content.",
    )
    late: Late = Field(
        default=Late(),
        description="Handling of late messages: older than the window, so duplicates cannot be detected.",
    )
    delivery: Delivery = Field(
        default=Delivery.EXACTLY_ONCE,
        description="ExactlyOnce: with Kafka transactions. AtLeastOnce: for brokers without transactions; after "
        "a crash some messages may pass twice, but none is lost.",
    )
    mode: Mode = Field(
        default=Mode.ENFORCE,
        description="Enforce: duplicates are removed. Observe: duplicates are only counted, and all messages "
        "pass.",
    )
    storage: Storage = Field(default=Storage(), description="The volume of each partition.")
    snapshots: Snapshots | None = Field(
        default=None, description="Snapshots of the stores. Default: none."
    )
    failover: Failover = Field(
        default=Failover(), description="Failover of workers from nodes that are not ready."
    )
    worker: Worker = Field(default=Worker(), description="The worker processes, one per partition.")
    suspend: StrictBool = Field(
        default=False, description="Stop all workers; their volumes are retained."
    )

    @rule(
        "input",
        "output",
        below="topic",
        cel="self.output.topic != self.input.topic",
        message="must differ from spec.input.topic: a worker would read its own output",
    )
    @staticmethod
    def _output_is_not_the_input(source: Input, target: Output) -> bool:
        return target.topic != source.topic

    @rule(
        "input",
        "output",
        below="topic",
        cel="!has(self.output.filter) || self.output.topic + '-filters' != self.input.topic",
        message="with -filters appended must differ from spec.input.topic: a worker would read its own filters",
    )
    @staticmethod
    def _filters_are_not_the_input(source: Input, target: Output) -> bool:
        return target.filter is None or f"{target.topic}-filters" != source.topic

    @rule(
        "input",
        "output",
        "duplicates",
        below="topic",
        cel=own_topic_cel("duplicates"),
        message=OWN_TOPIC,
    )
    @staticmethod
    def _duplicates_have_their_own_topic(
        source: Input, target: Output, duplicates: Duplicates
    ) -> bool:
        return is_own_topic(duplicates.topic, source, target)

    @rule(
        "input",
        "output",
        "conflicts",
        below="topic",
        cel=own_topic_cel("conflicts"),
        message=OWN_TOPIC,
    )
    @staticmethod
    def _conflicts_have_their_own_topic(
        source: Input, target: Output, conflicts: Conflicts
    ) -> bool:
        return is_own_topic(conflicts.topic, source, target)

    @rule(
        "input",
        "output",
        "duplicates",
        below="policy",
        cel=owners_topic_cel("duplicates"),
        message=OWNERS_TOPIC,
    )
    @staticmethod
    def _duplicates_have_an_owners_topic(
        source: Input, target: Output, duplicates: Duplicates
    ) -> bool:
        return has_owners_topic(duplicates.topic, source, target)

    @rule(
        "input",
        "output",
        "conflicts",
        below="policy",
        cel=owners_topic_cel("conflicts"),
        message=OWNERS_TOPIC,
    )
    @staticmethod
    def _conflicts_have_an_owners_topic(
        source: Input, target: Output, conflicts: Conflicts
    ) -> bool:
        return has_owners_topic(conflicts.topic, source, target)

    @rule(
        "input",
        "output",
        "late",
        below="topic",
        cel=own_topic_cel("late"),
        message=OWN_TOPIC,
    )
    @staticmethod
    def _late_messages_have_their_own_topic(source: Input, target: Output, late: Late) -> bool:
        return is_own_topic(late.topic, source, target)

    @rule(
        "store",
        "storage",
        below="size",
        cel="self.store.type == 'InverseBloom' || !isQuantity(string(self.storage.size)) || "
        "!isQuantity(string(self.store.window.maxBytes)) || "
        "quantity(string(self.storage.size)).asApproximateFloat() >= "
        "1.25 * quantity(string(self.store.window.maxBytes)).asApproximateFloat()",
        message="must be at least 1.25 times spec.store.window.maxBytes, or the volume would run full",
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
        cel=table_fits_cel(1.25),
        message="must be at least 1.25 times the size of spec.store.inverseBloom, or the volume would run full",
    )
    @staticmethod
    def _volume_holds_the_table(
        store: Store, duplicates: Duplicates, conflicts: Conflicts, storage: Storage
    ) -> bool:
        return storage.size >= 1.25 * table_bytes(store.inverse_bloom, duplicates, conflicts)

    @rule(
        "store",
        "storage",
        "snapshots",
        cel="!has(self.snapshots) || self.store.type == 'InverseBloom' || "
        "!isQuantity(string(self.storage.size)) || "
        "!isQuantity(string(self.store.window.maxBytes)) || "
        "quantity(string(self.storage.size)).asApproximateFloat() >= "
        "2.25 * quantity(string(self.store.window.maxBytes)).asApproximateFloat()",
        message="needs spec.storage.size to be at least 2.25 times spec.store.window.maxBytes: a volume "
        "also holds the newest checkpoint",
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
        cel=f"!has(self.snapshots) || {table_fits_cel(2.25)}",
        message="needs spec.storage.size to be at least 2.25 times the size of spec.store.inverseBloom: a "
        "volume also holds the newest checkpoint",
    )
    @staticmethod
    def _volume_holds_a_checkpoint_of_the_table(
        store: Store,
        duplicates: Duplicates,
        conflicts: Conflicts,
        storage: Storage,
        snapshots: Snapshots | None,
    ) -> bool:
        held = table_bytes(store.inverse_bloom, duplicates, conflicts)
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
        message="must have limits.memory at least 96Mi above the size of spec.store.inverseBloom",
    )
    @staticmethod
    def _memory_holds_the_table(
        store: Store, duplicates: Duplicates, conflicts: Conflicts, worker: Worker
    ) -> bool:
        limit = worker.resources.memory_limit
        held = table_bytes(store.inverse_bloom, duplicates, conflicts)
        return store.inverse_bloom is None or limit is None or limit >= held + 96 * MIB

    @property
    def table_bytes(self) -> float:
        """Return the least bytes of a partition's table; 0 with a store of another type."""
        return table_bytes(self.store.inverse_bloom, self.duplicates, self.conflicts)


class DedupeStream(Model):
    """Deduplicates a Kafka topic: each message of the input passes exactly once."""

    api_version: Literal["dedupestream.io/v1alpha1"] = Field(description="API version.")
    kind: Literal["DedupeStream"] = Field(description="Kind of the object.")
    metadata: Metadata = Field(description="Name and namespace.")
    spec: Spec = Field(description="The desired state of the stream.")

    @property
    def consumer_group(self) -> str:
        """Return the consumer group whose offsets record how far the input is read."""
        return f"{self.metadata.namespace}.{self.metadata.name}"

    @model_validator(mode="before")
    @classmethod
    def _without_status(cls, given: object) -> object:
        # The operator writes the status; it is no part of a manifest.
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name != "status"}
