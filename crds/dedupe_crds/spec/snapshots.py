"""Models of a stream's snapshots: provider, schedule, retention and destination."""

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
    """Provider of the snapshots."""

    CSI = "CSI"
    EBS = "EBS"
    S3 = "S3"


class CsiSnapshots(Model):
    """VolumeSnapshots of the cluster's CSI driver."""

    volume_snapshot_class_name: ObjectName | None = Field(
        default=None, description="VolumeSnapshotClass. Default: that of the CSI driver."
    )


class EbsSnapshots(Model):
    """Amazon EBS snapshots, with the credentials of the operator's environment (IRSA)."""

    region: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="AWS region. Default: that of the operator's environment."
    )
    tags: Annotated[dict[str, str], Field(max_length=40)] = Field(
        default={}, description="Tags of the snapshots, in addition to those of the operator."
    )


class Encryption(StrEnum):
    """Server-side encryption of objects in a bucket."""

    BUCKET_DEFAULT = "BucketDefault"
    AES256 = "AES256"
    KMS = "KMS"


class S3Snapshots(Model):
    """Files in a bucket with the S3 API, written and read by the workers."""

    bucket: BucketName = Field(description="Name of the bucket. It must exist.")
    prefix: Annotated[
        str,
        Field(max_length=512),
        matching(
            "([0-9A-Za-z!_.*'()-]+(/[0-9A-Za-z!_.*'()-]+)*)?",
            "must be a path without '/' at its ends",
        ),
    ] = Field(default="", description="Prefix of all object keys in the bucket.")
    region: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="Region of the bucket. Default: that of the workers' environment.",
    )
    endpoint: EndpointUrl | None = Field(
        default=None,
        description="URL of a service other than Amazon S3, such as http://minio:9000.",
    )
    credentials_secret_ref: SecretRef | None = Field(
        default=None,
        description="Secret in the stream's namespace whose key credentials is an AWS credentials file. "
        "Default: the workers' environment (IRSA, instance profile).",
    )
    encryption: Encryption = Field(
        default=Encryption.BUCKET_DEFAULT,
        description="Server-side encryption. BucketDefault: that of the bucket.",
    )
    kms_key_id: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None,
        description="Key for encryption: KMS. Default: the account's AWS managed key for S3.",
    )
    bandwidth: Annotated[ByteSize, size_between("64Ki", "100Gi")] = Field(
        default=64 * MIB, description="Maximum upload rate of a worker, in bytes per second."
    )

    @rule(
        "encryption",
        "kms_key_id",
        cel="!has(self.kmsKeyId) || self.encryption == 'KMS'",
        message="is for spec.snapshots.s3.encryption: KMS only",
    )
    @staticmethod
    def _key_is_for_kms(encryption: Encryption, key: str | None) -> bool:
        return key is None or encryption is Encryption.KMS


class Snapshots(Model):
    """Snapshots of the stores, from which lost volumes are restored."""

    provider: SnapshotProvider = Field(
        description="CSI: VolumeSnapshots. EBS: snapshots of Amazon EBS. S3: files in a bucket."
    )
    schedule: Schedule | None = Field(
        default=None,
        description="Cron schedule of the snapshots, in UTC. Default: only by hand.",
    )
    keep: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        default=4,
        description="Number of snapshots to retain. The newest usable snapshot is always retained.",
    )
    keep_for: Annotated[Duration, duration_between("1m", "3650d")] | None = Field(
        default=None,
        description="Age at which a snapshot is deleted. The newest usable snapshot is always retained.",
    )
    deadline: Annotated[Duration, duration_between("10s", "7d")] = Field(
        default=timedelta(hours=1),
        description="Time after which an incomplete snapshot fails.",
    )
    parallelism: Annotated[StrictInt, Field(ge=1, le=64)] = Field(
        default=4,
        description="Maximum number of partitions that are copied at the same time, one on each node.",
    )
    csi: CsiSnapshots = Field(default=CsiSnapshots(), description="Options of provider: CSI.")
    ebs: EbsSnapshots = Field(default=EbsSnapshots(), description="Options of provider: EBS.")
    s3: S3Snapshots | None = Field(
        default=None, description="Options of provider: S3, which requires them."
    )

    @rule(
        "provider",
        "s3",
        cel="self.provider != 'S3' || has(self.s3)",
        message="is required by spec.snapshots.provider: S3",
    )
    @staticmethod
    def _bucket_is_named(provider: SnapshotProvider, s3: S3Snapshots | None) -> bool:
        return provider is not SnapshotProvider.S3 or s3 is not None
