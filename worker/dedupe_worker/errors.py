"""The named errors of one partition, apart from those of Kafka.

After an error that is `retriable` the process stays up, shows that reason, and retries with back-off. Any other error
ends the process with its `exit_code`, for a person or a supervisor to decide.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dedupe_crds.status.exit_code import ExitCode
from dedupe_kafka.errors import StreamError


class Unsupported(StreamError):
    """The manifest asks for something that this version does not support."""

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


class OutputTruncated(StreamError):
    """The output has lost records under the running worker."""

    retriable = True


class InputTopicReplaced(StreamError):
    """The input topic was deleted and created again under the running worker."""

    retriable = True


class TopicUnproved(StreamError):
    """A broker without topic ids does not show that a topic is the one known before."""

    retriable = True


class StreamHasRouters(StreamError):
    """Routers read the input, and the manifest of this worker has none."""


class HandOverLost(StreamError):
    """The input offset that was handed over is gone.

    The topic was created again, or a user has set the offset.
    """

    retriable = True


class DiskFull(StreamError):
    """The volume has no room for the store."""

    retriable = True


class StoreCorrupt(StreamError):
    """RocksDB found its files damaged; they are rebuilt from the output topic."""

    retriable = True


class StoreFailed(StreamError):
    """RocksDB failed in a way for which there is no other name."""

    retriable = True


class NotComparable(StoreFailed):
    """The store cannot be compared with the output topic."""


class BucketUnavailable(StreamError):
    """The object storage does not answer, or answers with an error."""

    retriable = True


class BucketRefused(StreamError):
    """The bucket or object does not exist, or the credentials do not allow access."""

    retriable = True


class RestoreFailed(StreamError):
    """A snapshot cannot be restored: gone, damaged, unreadable or another partition's."""

    retriable = True


class SnapshotFailed(StreamError):
    """A snapshot was uploaded, but is not complete in the bucket."""

    retriable = True


class UploadRunning(StreamError):
    """A snapshot is being uploaded; operations that would change it must wait."""

    retriable = True


class OutputUnread(StreamError):
    """Records of the output that the store does not know yet can't be read yet."""

    retriable = True


# Of the file LOCK, which another process holds, or this one.
_LOCKED: Final = (
    "lock hold by current process",
    "While lock file: Resource temporarily unavailable",
)


def store_error(error: Exception, action: str) -> StreamError:
    """Return the named error for an exception of RocksDB.

    rocksdict has one exception class, so the status text decides, without its paths: they may hold any words.
    """
    text = str(error)
    said = ": ".join(part for part in text.split(": ") if "/" not in part)
    if "No space left" in said or "Disk quota exceeded" in said:
        return DiskFull(
            f"{action}: {text}; free or add space on the state volume; the worker then continues automatically"
        )
    if any(words in said for words in _LOCKED):
        return StateLocked(
            f"{action}: {text}; stop the other process that uses this state directory"
        )
    if any(word in said for word in ("Corruption", "No such file", "Sst file size mismatch")):
        return StoreCorrupt(f"{action}: {text}; the store is rebuilt from the output topic")
    return StoreFailed(f"{action}: {text}")


@contextmanager
def store_errors(action: str) -> Iterator[None]:
    """Translate the exceptions of RocksDB; rocksdict raises bare Exceptions."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, OSError):
            raise
        raise store_error(error, action) from error
