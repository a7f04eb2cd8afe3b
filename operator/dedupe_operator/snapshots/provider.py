"""What keeps copies of volumes, or of what is on them: a CSI driver, Amazon EBS, a bucket."""

from dataclasses import dataclass, field
from typing import Protocol

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.snapshot import PartitionSnapshot
from dedupe_operator.kubernetes.names import Object


class ProviderError(Exception):
    """A provider could not do what it was asked.

    `final`: asking again is of no use; else the next look asks again, until the snapshot's deadline.
    `reason` is one CamelCase word for users.
    """

    def __init__(self, reason: str, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.reason = reason
        self.final = final


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The copy of one partition for one DedupeSnapshot.

    `entry` is what the snapshot's status says of it; its stamp (topics, offsets) is known once the worker has made
    its checkpoint. `claim` is the partition's PersistentVolumeClaim, None if that is gone; `pod` its worker's pod.
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
class Copy:
    """How a copy stands. `usable`: complete, verified, and a volume can be made from it."""

    usable: bool
    bytes: int | None = None
    volume_size: int | None = None
    entry: PartitionSnapshot | None = None  # where the provider knows the stamp itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a new claim is made from: fields of its spec. Without any, it begins empty."""

    claim_spec: Object = field(default_factory=dict)
    least_size: int = 0


class Provider(Protocol):
    """Every method may be called again after a crash at any moment, and then finds what it did before.

    All raise ProviderError.
    """

    takes_checkpoint: bool
    """Whether `start` makes the worker's checkpoint itself, rather than be given one."""

    def start(self, job: Job) -> str:
        """Begin the copy, or adopt the one begun before; returns its handle."""
        ...

    def look(self, job: Job) -> Copy:
        """How the copy with `job.entry.handle` stands. A copy that failed or is gone is a final error."""
        ...

    def remove(self, job: Job) -> None:
        """Delete the copy with `job.entry.handle`; one that is gone, or not ours, is left alone."""
        ...

    def is_there(self, job: Job) -> bool:
        """Whether the copy can still be restored from, as far as the provider can tell now."""
        ...

    def source(self, job: Job, claim_name: str) -> Source:
        """Prepare a volume of the copy for the new claim `claim_name`, and say how the claim is made from it."""
        ...
