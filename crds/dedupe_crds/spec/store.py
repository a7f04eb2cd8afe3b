"""What a stream remembers, and the volume that holds it."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.names import ObjectName
from dedupe_crds.quantity import GIB, ByteSize, Duration
from dedupe_crds.rules import FieldRule, duration_between, rule, size_between
from dedupe_crds.spec.inverse_bloom import InverseBloom


class StoreType(StrEnum):
    """How the ids that were seen are remembered."""

    ROCKSDB = "RocksDB"
    INVERSE_BLOOM = "InverseBloom"


class ReclaimPolicy(StrEnum):
    """What becomes of the volumes of a deleted stream."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Window(Model):
    """How much is remembered. What exceeds a bound is forgotten oldest first."""

    max_bytes: Annotated[ByteSize, size_between("16Mi", "1Pi")] = Field(
        default=8 * GIB, description="Disk space for the ids of one partition."
    )
    max_age: Annotated[Duration, duration_between("1s", "3650d")] = Field(
        default=timedelta(days=28), description="Age at which an id may be forgotten."
    )
    alert_below: Annotated[Duration, duration_between("0s", "3650d")] = Field(
        default=timedelta(hours=24),
        description="Shortest window that is healthy: below it, because maxBytes forces younger "
        "ids out, the stream warns.",
    )
    generations: Annotated[StrictInt, Field(ge=2, le=16)] = Field(
        default=5,
        description="Parts the window is forgotten in, the oldest whole. More parts forget more "
        "evenly, and cost a lookup each.",
    )

    @rule(
        "max_age",
        "alert_below",
        cel="self.alertBelow < self.maxAge",
        says="must be shorter than spec.store.window.maxAge, or the stream would always warn",
    )
    @staticmethod
    def _alert_comes_before_the_bound(max_age: timedelta, alert_below: timedelta) -> bool:
        return alert_below < max_age


class Store(Model):
    """How the ids that were seen are remembered."""

    type: StoreType = Field(
        default=StoreType.ROCKSDB,
        description="RocksDB: exact, on disk. InverseBloom: a table of fixed size in memory, which may "
        "forget an id early and let a duplicate pass, and never takes a new message for one.",
    )
    window: Window = Field(
        default=Window(),
        description="How much is remembered. maxBytes and generations are RocksDB's only.",
    )
    inverse_bloom: InverseBloom | None = Field(
        default=None, description="For type: InverseBloom, which needs it."
    )

    @rule(
        "type",
        "inverse_bloom",
        cel="(self.type == 'InverseBloom') == has(self.inverseBloom)",
        says="is required by spec.store.type: InverseBloom, and must be absent otherwise",
    )
    @staticmethod
    def _table_has_a_size_and_only_a_table_has(
        type_: StoreType, inverse_bloom: InverseBloom | None
    ) -> bool:
        return (type_ is StoreType.INVERSE_BLOOM) == (inverse_bloom is not None)


class Storage(Model):
    """The volume of each partition."""

    size: Annotated[
        ByteSize,
        size_between("20Mi", "16Pi"),
        FieldRule(
            cel="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",
            says="must not shrink: volumes only grow",
        ),
    ] = Field(
        default=20 * GIB,
        description="Size of a volume: at least 1.25 times spec.store.window.maxBytes, and 2.25 "
        "times with spec.snapshots. It can grow, if the storage class allows, and never shrink.",
    )
    storage_class_name: ObjectName | None = Field(
        default=None, description="StorageClass of new volumes; the cluster's default if absent."
    )
    reclaim_policy: ReclaimPolicy = Field(
        default=ReclaimPolicy.RETAIN,
        description="Whether volumes outlive the stream. With Retain, a stream of the same name "
        "takes them over again.",
    )
