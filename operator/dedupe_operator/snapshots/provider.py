"""Interface of the snapshot providers: CSI driver, Amazon EBS, S3 bucket.

The snapshot runner and the volume manager call a provider; it raises ProviderError.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_crds.status.snapshot import PartitionSnapshot
from dedupe_operator.errors import ReportedError
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.worker_client import WorkerRefused


class ProviderError(ReportedError):
    """A provider could not do its work now; the next pass retries.

    The snapshot's deadline ends the retries.
    """

    retriable = True


class ProviderFailed(ProviderError):
    """A provider can't do its work; a retry would fail too."""

    retriable = False


def refused_by_worker(error: WorkerRefused) -> ProviderError:
    """Return a worker's refusal as an error of the provider that asked it."""
    kind = ProviderError if error.retriable else ProviderFailed
    return kind(error.reason, str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The copy of one partition for one DedupeSnapshot.

    `entry` is its entry in the snapshot's status; topics and offsets are known once the worker has made its
    checkpoint. `claim` is the partition's PersistentVolumeClaim, None if that is gone; `pod` is its worker's pod.
    """

    stream: DedupeStream
    snapshot: str
    snapshot_uid: str
    partition: int
    entry: PartitionSnapshot
    claim: Object | None = None
    pod: Object | None = None
    admin_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStatus:
    """State of a copy; `usable`: complete, verified, fit to create a volume."""

    usable: bool
    bytes: int | None = None
    volume_size: int | None = None
    entry: PartitionSnapshot | None = None  # where the provider itself knows the metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSource:
    """Source of a new claim: fields of its spec. Without any, the volume begins empty."""

    claim_spec: Object = field(default_factory=dict)
    least_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """Volumes made for claims that are gone, in words: `removed`, and `kept` with why."""

    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


class Provider(Protocol):
    """Storage of copies.

    Every method may be called again after a crash at any moment, and then finds what it did before. All raise
    ProviderError.
    """

    takes_checkpoint: bool
    """True if `start` makes the worker's checkpoint, False if it needs one made before."""

    def start(self, job: Job) -> str:
        """Start the copy, or adopt one that was started before; return its handle."""
        ...

    def status(self, job: Job) -> CopyStatus:
        """Return the state of the copy with `job.entry.handle`.

        Raises ProviderFailed if the copy failed or is gone.
        """
        ...

    def remove(self, job: Job) -> None:
        """Delete the copy with `job.entry.handle`; ignore one that is gone or not ours."""
        ...

    def exists(self, job: Job) -> bool:
        """Return whether the copy can still be restored from, as far as is known now."""
        ...

    def is_readable(self, job: Job) -> bool:
        """Ask where the copy lies whether it can be read, with the present credentials."""
        ...

    def location(self, job: Job) -> CopyLocation | None:
        """Return where a copy is made now; None if an object of the cluster names it."""
        ...

    def failure(self, events: Sequence[Object], now: datetime) -> str | None:
        """Return why a claim gets no volume from its copy, by its events; None if it may."""
        ...

    def source(self, job: Job, claim_name: str) -> ClaimSource:
        """Return the source of a claim that will be created; nothing is made yet."""
        ...

    def provision(self, job: Job, claim: Object) -> None:
        """Make the volume that a claim waits for, if no driver makes it."""
        ...

    def remove_left_behind(
        self, stream: DedupeStream, locations: Collection[CopyLocation]
    ) -> LeftBehind:
        """Remove volumes that `provision` made for claims that are gone.

        `locations` are those of the stream's copies.
        """
        ...
