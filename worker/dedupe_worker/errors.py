"""What can go wrong with one partition beside Kafka, by name.

An error that is `retriable` leaves the process up in that named state and is tried again with back-off; any
other ends the process with its `exit_code`, for a person or a supervisor to decide.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dedupe_crds.status.worker import ExitCode
from dedupe_kafka.errors import StreamError


class Unsupported(StreamError):
    """The manifest asks for what this version does not do."""

    exit_code = ExitCode.UNSUPPORTED


class IdentityRefused(StreamError):
    """The state directory belongs to another stream or partition."""

    exit_code = ExitCode.IDENTITY_REFUSED


class StateLocked(StreamError):
    """Another process has the state directory open."""

    exit_code = ExitCode.STATE_LOCKED


class OutputTopicReplaced(StreamError):
    """The output topic was deleted and created again under the running worker."""

    retriable = True


class DiskFull(StreamError):
    """The volume has no room for the store."""

    retriable = True


class StoreCorrupt(StreamError):
    """RocksDB found its files damaged; they are rebuilt from the output topic."""

    retriable = True


class StoreFailed(StreamError):
    """RocksDB failed in a way that has no name of its own."""

    retriable = True


class NotComparable(StoreFailed):
    """The store can't be compared with the output topic."""


class BucketUnavailable(StreamError):
    """The service that keeps the snapshots does not answer, or not as it should."""

    retriable = True


class BucketRefused(StreamError):
    """The bucket or what was asked of it is not there, or the credentials do not allow it."""

    retriable = True


class RestoreFailed(StreamError):
    """A snapshot can't be restored from: it is gone, damaged, another partition's or not to be had."""

    retriable = True


class SnapshotFailed(StreamError):
    """A snapshot was uploaded, and is not whole in the bucket."""

    retriable = True


class UploadRunning(StreamError):
    """A snapshot is being uploaded; what would disturb it has to wait."""

    retriable = True


def store_error(error: Exception, action: str) -> StreamError:
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


@contextmanager
def store_errors(action: str) -> Iterator[None]:
    """Translate what RocksDB raises; rocksdict raises bare Exceptions."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, OSError):
            raise
        raise store_error(error, action) from error
