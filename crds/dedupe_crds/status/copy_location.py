"""Location of a copy outside of the cluster, as it was when the copy was made.

A DedupeSnapshot records it ahead of the copy; a restore from a bucket has it in the stream's status.
"""

from typing import Annotated

from pydantic import Field

from dedupe_crds.base import Model
from dedupe_crds.spec.snapshots import S3Snapshots

_Text = Annotated[str, Field(max_length=2048)]


class CopyLocation(Model):
    """Location of a copy, without credentials: those are the stream's."""

    region: _Text | None = Field(
        default=None, description="AWS region. Default: that of the workers' environment."
    )
    bucket: _Text | None = Field(default=None, description="Name of the bucket, with provider: S3.")
    prefix: _Text | None = Field(
        default=None, description="Prefix of all object keys in the bucket."
    )
    endpoint: _Text | None = Field(
        default=None, description="URL of a service other than Amazon S3."
    )

    @classmethod
    def of(cls, s3: S3Snapshots) -> "CopyLocation":
        """Return where copies lie by these settings.

        >>> CopyLocation.of(S3Snapshots(bucket="ids")).model_dump(exclude_none=True)
        {'bucket': 'ids'}
        """
        return cls(
            region=s3.region, bucket=s3.bucket, prefix=s3.prefix or None, endpoint=s3.endpoint
        )

    def settings(self, present: S3Snapshots) -> S3Snapshots:
        """Return settings that reach this location, with all else of the present ones.

        >>> moved = CopyLocation(bucket="old").settings(S3Snapshots(bucket="new", prefix="a"))
        >>> moved.bucket, moved.prefix
        ('old', '')
        """
        here = {
            **self.model_dump(),
            "prefix": self.prefix or "",
            "bucket": self.bucket or present.bucket,
        }
        return present.model_copy(update=here)
