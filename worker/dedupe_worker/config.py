"""The configuration of one worker, built once by the command line and passed down.

It consists of the stream's manifest, a partition number and a state directory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.names import ObjectName
from dedupe_crds.spec.snapshots import S3Snapshots
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_kafka.client import read_properties
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.state_dir import StateDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """The configuration of one worker.

    `properties` are the user's librdkafka properties and may hold secrets. An empty state directory is filled from the
    snapshot `restore_from`, which lies at `restore_location` if not in the manifest's bucket. `fenced_file` exists once
    another worker has taken over.
    """

    stream: DedupeStream
    partition: int
    state: StateDirectory
    properties: Mapping[str, str] = field(repr=False)
    restore_from: str | None = None
    restore_location: CopyLocation | None = None
    fenced_file: Path | None = None

    @property
    def stream_id(self) -> str:
        """Return namespace/name, as recorded on the volume."""
        return self.stream.shown

    @property
    def group(self) -> str:
        """Return the consumer group whose offsets record how far the input is read."""
        return self.stream.consumer_group

    @property
    def transactional_id(self) -> str:
        """Return the transactional id of this partition of this stream.

        A second worker with the same id fences the first.
        """
        return f"{self.group}.{self.partition}"

    @property
    def bucket(self) -> S3Snapshots | None:
        """Return the snapshots' bucket, if there is one.

        It may also be that of an earlier provider, whose snapshots are still there.
        """
        snapshots = self.stream.spec.snapshots
        return snapshots.s3 if snapshots else None

    @property
    def restore_bucket(self) -> S3Snapshots | None:
        """Return the bucket that `restore_from` is in, with the stream's credentials."""
        s3, location = self.bucket, self.restore_location
        return location.settings(s3) if s3 and location else s3

    @property
    def bounds(self) -> Bounds:
        """Return the window's bounds."""
        window = self.stream.spec.store.window
        return Bounds(
            max_bytes=window.max_bytes, max_age=window.max_age, generations=window.generations
        )


def load_config(
    *,
    manifest: Path,
    partition: int,
    state_dir: Path,
    kafka_properties: Path | None,
    restore_from: str | None = None,
    restore_location: str | None = None,
    fenced_file: Path | None = None,
) -> WorkerConfig:
    """Read and check the configuration. Raises InvalidConfig."""
    try:
        stream = load_manifest(manifest)
    except ManifestError as error:
        raise InvalidConfig(str(error)) from error
    if restore_from is not None:
        _check_source(restore_from)
    return WorkerConfig(
        stream=stream,
        partition=partition,
        state=StateDirectory(state_dir),
        properties=read_properties(kafka_properties),
        restore_from=restore_from,
        restore_location=_parse_location(restore_location),
        fenced_file=fenced_file,
    )


def _parse_location(text: str | None) -> CopyLocation | None:
    if text is None:
        return None
    try:
        return CopyLocation.model_validate_json(text)
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise InvalidConfig(f"--restore-location is not the place of a copy: {why}") from error


def _check_source(snapshot: str) -> None:
    try:
        TypeAdapter(ObjectName).validate_python(snapshot)
    except ValidationError as error:
        raise InvalidConfig(
            f"--restore-from {snapshot!r} is not the name of a snapshot: {error.errors()[0]['msg']}"
        ) from error
