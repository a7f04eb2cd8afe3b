"""Make clients of a service with the S3 API, and name their errors.

`bucket`, `upload` and `download` use it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    InvalidRegionError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)
from s3transfer.exceptions import RetriesExceededError
from s3transfer.manager import TransferConfig, TransferManager

from dedupe_crds.quantity import MIB
from dedupe_crds.spec.snapshots import S3Snapshots
from dedupe_kafka.errors import StreamError
from dedupe_worker.errors import BucketRefused, BucketUnavailable, DiskFull

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PART_BYTES: Final = 16 * MIB
"""Larger files are sent in parts of this size; a broken connection costs one part."""

_FILES_AT_ONCE: Final = 8
_ATTEMPTS: Final = 8

# Errors that a person has to fix: codes of AWS and of other services. HEAD has no code, only its status.
_REFUSALS: Final = {
    "401", "403", "404", "AccessDenied", "AccountProblem", "AllAccessDisabled", "ExpiredToken", "InvalidAccessKeyId",
    "InvalidBucketName", "InvalidObjectState", "InvalidToken", "NoSuchBucket", "NoSuchKey", "PermanentRedirect",
    "SignatureDoesNotMatch", "TokenRefreshRequired", "UnauthorizedAccess",
}  # fmt: skip


def transfer_client(s3: S3Snapshots) -> "S3Client":
    """Return a client with long timeouts, for files."""
    return _client(s3, attempts=_ATTEMPTS, connect_seconds=10, read_seconds=60)


def short_timeout_client(s3: S3Snapshots) -> "S3Client":
    """Return a client with short timeouts, for requests that a caller waits for."""
    return _client(s3, attempts=3, connect_seconds=2, read_seconds=5)


def _client(
    s3: S3Snapshots, *, attempts: int, connect_seconds: float, read_seconds: float
) -> "S3Client":
    # Only Amazon's own service is certain to accept buckets as host names and checksums after the body. All
    # services accept the checksum that is part of a request's signature.
    elsewhere = s3.endpoint is not None
    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=connect_seconds,
        read_timeout=read_seconds,
        max_pool_connections=2 * _FILES_AT_ONCE,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3=(
            {"addressing_style": "path", "payload_signing_enabled": True}
            if elsewhere
            else {"addressing_style": "auto"}
        ),
    )
    with s3_errors(f"bucket {s3.bucket}"):
        # A new session each time: it reads renewed credentials from a file.
        return Session().client(
            "s3", region_name=s3.region, endpoint_url=s3.endpoint, config=config
        )


def transfers(client: "S3Client", *, most_bytes_a_second: int | None = None) -> TransferManager:
    """Return a manager that moves files in parallel, with retries."""
    config = TransferConfig(
        multipart_threshold=PART_BYTES,
        multipart_chunksize=PART_BYTES,
        max_request_concurrency=_FILES_AT_ONCE,
        max_bandwidth=most_bytes_a_second,
    )
    return TransferManager(client, config)


@contextmanager
def s3_errors(action: str) -> Iterator[None]:
    """Translate what boto3 raises: BucketRefused, BucketUnavailable or DiskFull.

    The texts are those of the service and contain no secret.
    """
    try:
        yield
    except StreamError:
        raise
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        kind = BucketRefused if code in _REFUSALS else BucketUnavailable
        raise kind(f"{action}: {error}") from error
    except (
        NoCredentialsError,
        PartialCredentialsError,
        ProfileNotFound,
        InvalidRegionError,
    ) as error:
        raise BucketRefused(
            f"{action}: {error}; give the stream spec.snapshots.s3.credentialsSecretRef, or its ServiceAccount a role"
        ) from error
    except (BotoCoreError, RetriesExceededError) as error:
        raise BucketUnavailable(f"{action}: {error}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"{action}: {error.strerror}; free or add space on the volume"
            ) from error
        raise
