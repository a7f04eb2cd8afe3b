"""The snapshots of a stream: who makes them, when, and where they are kept."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.names import BucketName, EndpointUrl, ObjectName, Schedule
from dedupe_crds.quantity import MIB, ByteSize, Duration
from dedupe_crds.rules import duration_between, matching, rule, size_between
from dedupe_crds.spec.topics import SecretRef


class SnapshotProvider(StrEnum):
    """Who makes and keeps the snapshots."""

    CSI = "CSI"
    EBS = "EBS"
    S3 = "S3"


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
