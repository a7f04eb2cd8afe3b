"""The folder of one partition in a bucket: the keys of its objects.

PREFIX/NAMESPACE/STREAM/PARTITION/snapshots/NAME.json      the manifest of a snapshot
PREFIX/NAMESPACE/STREAM/PARTITION/objects/SHA256           the content of a file, shared by snapshots
"""

from dataclasses import dataclass

from dedupe_crds.spec.snapshots import S3Snapshots


@dataclass(frozen=True, slots=True)
class Folder:
    """The keys of one partition's snapshots."""

    prefix: str

    @classmethod
    def of(cls, s3: S3Snapshots, stream: str, partition: int) -> "Folder":
        """Return the folder of a partition; `stream` is namespace/name."""
        parts = [s3.prefix, stream, str(partition)] if s3.prefix else [stream, str(partition)]
        return cls("/".join(parts))

    def manifest(self, name: str) -> str:
        """Return the key of a snapshot's manifest."""
        return f"{self.prefix}/snapshots/{name}.json"

    def content(self, sha256: str) -> str:
        """Return the key of a file's content."""
        return f"{self.prefix}/objects/{sha256}"
