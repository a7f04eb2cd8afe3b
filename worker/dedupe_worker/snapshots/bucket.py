"""One partition's folder in a bucket: its objects and their keys."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError
from pydantic import ValidationError

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.snapshots import Encryption, S3Snapshots
from dedupe_worker.errors import BucketRefused
from dedupe_worker.snapshots.folder import Folder
from dedupe_worker.snapshots.manifest import Manifest
from dedupe_worker.snapshots.s3_client import s3_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_LARGEST_MANIFEST_BYTES: Final = 64 << 20


class ManifestDamaged(BucketRefused):
    """The object under a manifest's key is no manifest that this version can read."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A content in the bucket. `modified` is a time of the bucket's clock."""

    key: str
    size: int
    modified: datetime


class Bucket:
    """Reads and writes one folder through one client.

    Raises BucketRefused or BucketUnavailable from any method.
    """

    def __init__(
        self, s3: S3Snapshots, folder: Folder, client: "S3Client", clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.name = s3.bucket
        self.folder = folder
        self.client = client
        self._clock = clock
        self._encryption = _encryption(s3)
        self._checks_parts = s3.endpoint is None

    # -- manifests -------------------------------------------------------------------------------

    def manifest(self, name: str) -> Manifest | None:
        """Return a snapshot's manifest; None if there is none. Raises ManifestDamaged."""
        key = self.folder.manifest(name)
        with s3_errors(f"reading {key} of bucket {self.name}"):
            try:
                answer = self.client.get_object(Bucket=self.name, Key=key)
            except self.client.exceptions.NoSuchKey:
                return None
            content = answer["Body"].read(_LARGEST_MANIFEST_BYTES)
        try:
            return Manifest.model_validate_json(content)
        except ValidationError as error:
            raise ManifestDamaged(
                f"{key} of bucket {self.name} is no manifest that this version can read: "
                f"{error.errors()[0]['msg']}"
            ) from error

    def manifest_names(self) -> list[str]:
        """Return the names of all manifests, also of those that can't be read."""
        before, after = self.folder.manifest("\0").split("\0")
        found = (each.key for each in self._list(before))
        names = (
            key.removeprefix(before).removesuffix(after) for key in found if key.endswith(after)
        )
        return [name for name in names if name and "/" not in name]

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest; with it the snapshot exists."""
        key = self.folder.manifest(manifest.name)
        body = (manifest.model_dump_json(by_alias=True, indent=2) + "\n").encode()
        with s3_errors(f"writing {key} to bucket {self.name}"):
            self.client.put_object(
                Bucket=self.name,
                Key=key,
                Body=body,
                ContentType="application/json",
                ChecksumAlgorithm="SHA256",
                **self._encryption,
            )

    # -- contents --------------------------------------------------------------------------------

    def contents(self) -> dict[str, StoredObject]:
        """Return the contents in the bucket, by SHA-256.

        Objects without such a name are not ours.
        """
        prefix = self.folder.content("")
        found = ((each.key.removeprefix(prefix), each) for each in self._list(prefix))
        return {sha256: each for sha256, each in found if _SHA256.fullmatch(sha256)}

    def upload_arguments(self, size: int, sha256_base64: str, part_bytes: int) -> dict[str, Any]:
        """Return the encryption, and the checksum by which the bucket finds damage."""
        if size < part_bytes:
            return {**self._encryption, "ChecksumSHA256": sha256_base64}
        if self._checks_parts:
            return {**self._encryption, "ChecksumAlgorithm": "SHA256"}
        return {**self._encryption}

    def unfinished_uploads(self) -> Iterator[tuple[str, str, datetime]]:
        """Yield key, id and begin of each unfinished upload in parts."""
        prefix = self.folder.content("")
        with s3_errors(f"listing unfinished uploads to bucket {self.name}"):
            pages = self.client.get_paginator("list_multipart_uploads")
            for page in pages.paginate(Bucket=self.name, Prefix=prefix):
                for each in page.get("Uploads", []):
                    if _SHA256.fullmatch(each["Key"].removeprefix(prefix)):
                        yield each["Key"], each["UploadId"], each["Initiated"]

    # -- everything -----------------------------------------------------------------------------

    def delete(self, key: str) -> None:
        """Delete an object, if it exists."""
        with s3_errors(f"deleting {key} of bucket {self.name}"):
            self.client.delete_object(Bucket=self.name, Key=key)

    def now(self) -> datetime:
        """Return the time of the bucket's clock, which dates its objects."""
        with s3_errors(f"reading the time of bucket {self.name}"):
            answer = self.client.list_objects_v2(
                Bucket=self.name, Prefix=self.folder.content(""), MaxKeys=1
            )
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        return parsedate_to_datetime(date).astimezone(UTC) if date else self._clock.now()

    def _list(self, prefix: str) -> Iterator[StoredObject]:
        with s3_errors(f"listing {prefix} of bucket {self.name}"):
            for page in self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.name, Prefix=prefix
            ):
                for each in page.get("Contents", []):
                    yield StoredObject(each["Key"], each["Size"], each["LastModified"])


def is_gone(error: Exception) -> bool:
    """Return whether an upload in parts has ended.

    A repeated request fails so if the first one had arrived.
    """
    return (
        isinstance(error, ClientError)
        and error.response.get("Error", {}).get("Code") == "NoSuchUpload"
    )


def _encryption(s3: S3Snapshots) -> dict[str, Any]:
    if s3.encryption is Encryption.AES256:
        return {"ServerSideEncryption": "AES256"}
    if s3.encryption is Encryption.KMS:
        key = {"SSEKMSKeyId": s3.kms_key_id} if s3.kms_key_id else {}
        return {"ServerSideEncryption": "aws:kms", **key}
    return {}
