"""Everything that can go wrong with one partition, by name.

`reason` is the stable CamelCase word users see in `/readyz`, metrics and conditions. An error that is
`retriable` leaves the process up in that named state and is tried again with back-off; any other ends the
process with its `exit_code`, for a person or a supervisor to decide.
"""

from typing import ClassVar

from dedupe_crds.worker_status import ExitCode


class WorkerError(Exception):
    """What happened, to what, and what to do about it."""

    retriable: ClassVar[bool] = False
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    @property
    def reason(self) -> str:
        """The error's name as users see it."""
        return type(self).__name__


class InvalidConfig(WorkerError):
    """The configuration can't be used as it is."""

    exit_code = ExitCode.CONFIG


class Unsupported(WorkerError):
    """The manifest asks for what this version does not do."""

    exit_code = ExitCode.UNSUPPORTED


class IdentityRefused(WorkerError):
    """The state directory belongs to another stream or partition."""

    exit_code = ExitCode.IDENTITY_REFUSED


class StateLocked(WorkerError):
    """Another process has the state directory open."""

    exit_code = ExitCode.STATE_LOCKED


class Fenced(WorkerError):
    """A newer worker of the same partition has taken over."""

    exit_code = ExitCode.FENCED


class BrokerUnavailable(WorkerError):
    """Kafka does not answer, or gave up on a transaction."""

    retriable = True


class TopicMissing(WorkerError):
    """A topic or partition the stream names does not exist."""

    retriable = True


class NotAuthorized(WorkerError):
    """Kafka refuses the credentials or the rights that go with them."""

    retriable = True


class OutputTopicReplaced(WorkerError):
    """The output topic was deleted and created again under the running worker."""

    retriable = True


class RecordRefused(WorkerError):
    """The output topic refuses a record; nothing is skipped, so the partition waits."""

    retriable = True


class RecordTooLarge(RecordRefused):
    """The output topic refuses a record for its size."""


class DiskFull(WorkerError):
    """The volume has no room for the store."""

    retriable = True


class StoreCorrupt(WorkerError):
    """RocksDB found its files damaged; they are rebuilt from the output topic."""

    retriable = True


class StoreFailed(WorkerError):
    """RocksDB failed in a way that has no name of its own."""

    retriable = True


def store_error(error: Exception, action: str) -> WorkerError:
    """Name what RocksDB raised: rocksdict has one exception class, so the status text decides."""
    text = str(error)
    if "No space left" in text or "Disk quota exceeded" in text:
        return DiskFull(
            f"{action}: {text}; free or add space on the state volume, the worker goes on by itself"
        )
    if "LOCK" in text:
        return StateLocked(
            f"{action}: {text}; stop the other process that uses this state directory"
        )
    if any(word in text for word in ("Corruption", "No such file", "Sst file size mismatch")):
        return StoreCorrupt(f"{action}: {text}; the store is rebuilt from the output topic")
    return StoreFailed(f"{action}: {text}")
