"""Models of the id store and of its volume."""

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
    """Type of the id store."""

    ROCKSDB = "RocksDB"
    INVERSE_BLOOM = "InverseBloom"


class ReclaimPolicy(StrEnum):
    """Handling of the volumes when the stream is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Window(Model):
    """Bounds of the store: the oldest ids are evicted first."""

    max_bytes: Annotated[ByteSize, size_between("16Mi", "1Pi")] = Field(
        default=8 * GIB, description="Maximum disk space for the ids of a partition."
    )
    max_age: Annotated[Duration, duration_between("1s", "3650d")] = Field(
        default=timedelta(days=28), description="Age at which an id may be evicted."
    )
    alert_below: Annotated[Duration, duration_between("0s", "3650d")] = Field(
        default=timedelta(hours=24),
        description="Shortest healthy window. If the window becomes shorter, because maxBytes forces younger "
        "ids out, the condition WindowHealthy is False.",
    )
    generations: Annotated[StrictInt, Field(ge=2, le=16)] = Field(
        default=5,
        description="Number of generations that the window is divided into. The oldest generation is evicted as a "
        "whole. More generations evict more evenly, but each one costs a lookup per message.",
    )

    @rule(
        "max_age",
        "alert_below",
        cel="self.alertBelow < self.maxAge",
        message="must be shorter than spec.store.window.maxAge, or the stream would always warn",
    )
    @staticmethod
    def _alert_comes_before_the_bound(max_age: timedelta, alert_below: timedelta) -> bool:
        return alert_below < max_age


class Store(Model):
    """The store of known ids, one per partition."""

    type: StoreType = Field(
        default=StoreType.ROCKSDB,
        description="RocksDB: exact, on disk. InverseBloom: a table of fixed size in memory. It may evict an id "
        "early and so pass a duplicate, but never drops a new message.",
    )
    window: Window = Field(
        default=Window(),
        description="Bounds of the store. maxBytes and generations apply to type: RocksDB only.",
    )
    inverse_bloom: InverseBloom | None = Field(
        default=None, description="Size of the table. Required by type: InverseBloom."
    )

    @rule(
        "type",
        "inverse_bloom",
        cel="(self.type == 'InverseBloom') == has(self.inverseBloom)",
        message="is required by spec.store.type: InverseBloom, and must be absent otherwise",
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
            message="must not shrink: volumes only grow",
        ),
    ] = Field(
        default=20 * GIB,
        description="Size of each volume: at least 1.25 times spec.store.window.maxBytes, and 2.25 times with "
        "spec.snapshots. It can grow if the StorageClass allows expansion, but never shrink.",
    )
    storage_class_name: ObjectName | None = Field(
        default=None,
        description="StorageClass of new volumes. Default: the cluster's default StorageClass.",
    )
    reclaim_policy: ReclaimPolicy = Field(
        default=ReclaimPolicy.RETAIN,
        description="Handling of the volumes when the stream is deleted. With Retain, a new stream with the same "
        "name uses them again.",
    )
