"""`DedupeStream`: the manifest of a topic to deduplicate.

The schema, the reference and the checks of a manifest are generated from these models. A field's description is
what `kubectl explain` shows. Invariant: each rule means the same in CEL and in Python.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, StrictBool, model_validator

from dedupe_crds.base import Model
from dedupe_crds.quantity import MIB
from dedupe_crds.rules import FieldRule, rule
from dedupe_crds.spec.flow import Flow
from dedupe_crds.spec.inverse_bloom import TABLE_BYTES_CEL, table_bytes, table_fits_cel
from dedupe_crds.spec.metadata import Metadata
from dedupe_crds.spec.snapshots import Snapshots
from dedupe_crds.spec.store import Storage, Store
from dedupe_crds.spec.topics import Conflicts, Duplicates
from dedupe_crds.spec.worker import Failover, Worker

GROUP = "dedupestream.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "DedupeStream"


class Spec(Flow):
    """The desired state of the stream."""

    store: Store = Field(default=Store(), description="The store of known ids, one per partition.")
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


_SAME_INPUT: Final = FieldRule(
    cel="has(self.repartition) || !has(self.input.topic) || !has(oldSelf.input.topic) || "
    "self.input.topic == oldSelf.input.topic",
    message="the input topic never changes; create another stream instead",
    path=("input", "topic"),
)
_KEEPS_ROUTERS: Final = FieldRule(
    cel="has(self.repartition) || !has(oldSelf.repartition)",
    message="is never removed: a worker that reads an input partition itself would not know ids that routers have sent "
    "to other workers; create another stream instead",
    path=("repartition",),
)
# The epoch log says where routers begin in the topic that workers have read.
_KEEPS_INPUT: Final = FieldRule(
    cel="has(oldSelf.repartition) || !has(self.repartition) || !has(oldSelf.input.topic) || "
    "(has(self.input.topic) && self.input.topic == oldSelf.input.topic) || "
    "(has(self.input.topics) && oldSelf.input.topic in self.input.topics) || "
    "(has(self.input.pattern) && oldSelf.input.topic.matches('^(' + self.input.pattern + ')$'))",
    message="must keep the topic that the stream has read without routers: add spec.repartition with the same input "
    "first, then change the input",
    path=("input",),
)


class DedupeStream(Model):
    """Deduplicates a Kafka topic: each message of the input passes exactly once."""

    api_version: Literal["dedupestream.io/v1alpha1"] = Field(description="API version.")
    kind: Literal["DedupeStream"] = Field(description="Kind of the object.")
    metadata: Metadata = Field(description="Name and namespace.")
    spec: Annotated[Spec, _SAME_INPUT, _KEEPS_ROUTERS, _KEEPS_INPUT] = Field(
        description="The desired state of the stream."
    )

    @property
    def consumer_group(self) -> str:
        """Return the consumer group whose offsets record how far the workers have read."""
        return f"{self.metadata.namespace}.{self.metadata.name}"

    @property
    def router_group(self) -> str:
        """Return the consumer group of the routers, whose offsets are of the input."""
        return f"{self.consumer_group}.routers"

    @property
    def shown(self) -> str:
        """Return namespace and name as a text for users."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @model_validator(mode="before")
    @classmethod
    def _without_status(cls, given: object) -> object:
        # The operator writes the status; it is no part of a manifest.
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name != "status"}
