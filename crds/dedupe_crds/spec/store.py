"""What a stream remembers, and the volumes and snapshots that keep it."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictFloat, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.names import BucketName, EndpointUrl, ObjectName, Schedule
from dedupe_crds.quantity import GIB, MIB, ByteSize, Duration
from dedupe_crds.rules import FieldRule, duration_between, matching, rule, size_between
from dedupe_crds.spec.topics import (
    ConflictPolicy,
    Conflicts,
    DuplicatePolicy,
    Duplicates,
    SecretRef,
)


class StoreType(StrEnum):
    """How the ids that were seen are remembered."""

    ROCKSDB = "RocksDB"
    INVERSE_BLOOM = "InverseBloom"


class ReclaimPolicy(StrEnum):
    """What becomes of the volumes of a deleted stream."""

    RETAIN = "Retain"
    DELETE = "Delete"


class SnapshotProvider(StrEnum):
    """Who makes and keeps the snapshots."""

    CSI = "CSI"
    EBS = "EBS"
    S3 = "S3"


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


def _least_slots(messages: int, retain: float) -> float:
    """The slots that a target takes, as a bound from below: CEL has no logarithm.

    They are messages / -ln(retain), and half a slot; with x = -ln(r), x <= sinh(x) = (1 - r^2) / 2r. The bound is
    99.8 % of them at 0.9, 92 % at 0.5, 47 % at 0.1 and 9 % at 0.01. The worker checks by the logarithm.
    """
    return messages * 2 * retain / (1 - retain * retain)


def _least_slots_cel(table: str) -> str:
    """`_least_slots` of a table, in a rule."""
    return (
        f"double({table}.messages) * 2.0 * {table}.retain / (1.0 - {table}.retain * {table}.retain)"
    )


class InverseBloom(Model):
    """How large the table of each partition is: by slots, by memory, or by what it is to retain."""

    slots: StrictInt | None = Field(
        default=None,
        ge=1024,
        le=2**32,
        description="Ids that the table holds at most. A slot takes 24 bytes; 30 with "
        "spec.duplicates.policy: Topic, and 34 with spec.conflicts.policy: Topic.",
    )
    memory: Annotated[ByteSize, size_between("64Ki", "96Gi")] | None = Field(
        default=None, description="Memory of the table; the worker takes some 200Mi beside it."
    )
    messages: StrictInt | None = Field(
        default=None,
        ge=1,
        le=10**12,
        description="Messages of the partition for which an id is to be remembered, with the chance "
        "`retain`.",
    )
    retain: StrictFloat | None = Field(
        default=None,
        ge=0.01,
        le=0.999,
        description="Share of the ids that is still remembered after so many further messages: "
        "(1 - 1/slots)^messages.",
    )

    def least_bytes(self, slot_bytes: int) -> float:
        """What a table takes, with slots of so many bytes; of a target a bound from below, see `_least_slots`."""
        if self.slots is not None:
            return float(slot_bytes * self.slots)
        if self.messages is not None and self.retain is not None:
            return slot_bytes * _least_slots(self.messages, self.retain)
        return float(self.memory or 0)

    @rule(
        "slots",
        "memory",
        "messages",
        cel="[has(self.slots), has(self.memory), has(self.messages)].filter(x, x).size() == 1",
        says="exactly one of slots, memory and messages (with retain) must be given",
    )
    @staticmethod
    def _one_way_to_say_it(*ways: int | None) -> bool:
        return sum(way is not None for way in ways) == 1

    @rule(
        "messages",
        "retain",
        cel="has(self.messages) == has(self.retain)",
        says="belongs to spec.store.inverseBloom.messages: give both, or neither",
    )
    @staticmethod
    def _retain_is_for_messages(messages: int | None, retain: float | None) -> bool:
        return (messages is None) == (retain is None)

    @rule(
        "messages",
        "retain",
        cel=f"!has(self.messages) || !has(self.retain) || {_least_slots_cel('self')} <= 4294967296.0",
        says="takes more than 2^32 slots with so many messages: use more partitions, or retain less",
    )
    @staticmethod
    def _target_fits_a_table(messages: int | None, retain: float | None) -> bool:
        return messages is None or retain is None or _least_slots(messages, retain) <= 2**32


def slot_bytes(duplicates: Duplicates, conflicts: Conflicts) -> int:
    """Bytes of a slot: an id of 16, its owner of 8, a time of 6 to tell of duplicates, a hash of 4 to see conflicts."""
    if conflicts.policy is ConflictPolicy.TOPIC:
        return 34
    return 30 if duplicates.policy is DuplicatePolicy.TOPIC else 24


def _table_bytes_cel() -> str:
    """`InverseBloom.least_bytes` of a spec, with its `slot_bytes`."""
    table = "self.store.inverseBloom"
    of_memory = f"quantity(string({table}.memory)).asApproximateFloat()"
    slot = "(self.conflicts.policy == 'Topic' ? 34.0 : self.duplicates.policy == 'Topic' ? 30.0 : 24.0)"
    return (
        f"(has({table}.slots) ? {slot} * double({table}.slots)"
        f" : has({table}.memory) && isQuantity(string({table}.memory)) ? {of_memory}"
        f" : has({table}.messages) && has({table}.retain) ? {slot} * {_least_slots_cel(table)} : 0.0)"
    )


TABLE_BYTES_CEL = _table_bytes_cel()
"""What a table takes at least, in a rule of the spec that has one."""


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


class CsiSnapshots(Model):
    """VolumeSnapshots of the cluster's own storage driver."""

    volume_snapshot_class_name: ObjectName | None = Field(
        default=None, description="VolumeSnapshotClass; the driver's default if absent."
    )


class EbsSnapshots(Model):
    """Snapshots of Amazon EBS volumes. Credentials come from the operator's own environment (IRSA)."""

    region: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="AWS region; that of the operator's environment if absent."
    )
    tags: Annotated[dict[str, str], Field(max_length=40)] = Field(
        default={}, description="Tags of the snapshots, beside the operator's own."
    )


class Encryption(StrEnum):
    """Server-side encryption of objects in a bucket."""

    BUCKET_DEFAULT = "BucketDefault"
    AES256 = "AES256"
    KMS = "KMS"


class S3Snapshots(Model):
    """Files in a bucket of any service that speaks S3. The workers write and read them."""

    bucket: BucketName = Field(description="The bucket. It must exist.")
    prefix: Annotated[
        str,
        Field(max_length=512),
        matching(
            "([0-9A-Za-z!_.*'()-]+(/[0-9A-Za-z!_.*'()-]+)*)?",
            "must be a path without '/' at its ends",
        ),
    ] = Field(default="", description="Path in the bucket below which everything is kept.")
    region: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="Region of the bucket; that of the workers' environment if absent.",
    )
    endpoint: EndpointUrl | None = Field(
        default=None, description="URL of a service other than Amazon's, such as http://minio:9000."
    )
    credentials_secret_ref: SecretRef | None = Field(
        default=None,
        description="Secret in the stream's namespace with the key `credentials`: an AWS credentials "
        "file. The workers' environment (IRSA, instance profile) if absent.",
    )
    encryption: Encryption = Field(
        default=Encryption.BUCKET_DEFAULT,
        description="Server-side encryption: BucketDefault asks for none of its own.",
    )
    kms_key_id: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None, description="Key for encryption: KMS; the account's own S3 key if absent."
    )
    bandwidth: Annotated[ByteSize, size_between("64Ki", "100Gi")] = Field(
        default=64 * MIB, description="Most bytes a worker uploads in a second."
    )

    @rule(
        "encryption",
        "kms_key_id",
        cel="!has(self.kmsKeyId) || self.encryption == 'KMS'",
        says="is for spec.snapshots.s3.encryption: KMS only",
    )
    @staticmethod
    def _key_is_for_kms(encryption: Encryption, key: str | None) -> bool:
        return key is None or encryption is Encryption.KMS


class Snapshots(Model):
    """Copies of the stores from which a lost volume is restored."""

    provider: SnapshotProvider = Field(
        description="CSI: VolumeSnapshots. EBS: snapshots of Amazon EBS. S3: files in a bucket."
    )
    schedule: Schedule | None = Field(
        default=None,
        description="When to make one, as a cron schedule in UTC; only by hand if absent.",
    )
    keep: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        default=4, description="Snapshots to keep; the newest usable one always stays."
    )
    keep_for: Annotated[Duration, duration_between("1m", "3650d")] | None = Field(
        default=None,
        description="Age at which a snapshot is removed; the newest usable one always stays.",
    )
    deadline: Annotated[Duration, duration_between("10s", "7d")] = Field(
        default=timedelta(hours=1),
        description="Time after which a snapshot that is not complete is given up.",
    )
    csi: CsiSnapshots = Field(default=CsiSnapshots(), description="For provider: CSI.")
    ebs: EbsSnapshots = Field(default=EbsSnapshots(), description="For provider: EBS.")
    s3: S3Snapshots | None = Field(default=None, description="For provider: S3, which needs it.")

    @rule(
        "provider",
        "s3",
        cel="self.provider != 'S3' || has(self.s3)",
        says="is required by spec.snapshots.provider: S3",
    )
    @staticmethod
    def _bucket_is_named(provider: SnapshotProvider, s3: S3Snapshots | None) -> bool:
        return provider is not SnapshotProvider.S3 or s3 is not None
