"""The base class of all errors of a stream, and the errors of Kafka by name.

`reason` is the stable CamelCase word that users see in `/readyz`, metrics and conditions. A `retriable` error may
disappear without a change of the request, or when a user repairs something else; it is retried with back-off. Any
other error is fatal until the request is changed; a worker process then exits with the error's `exit_code`.
"""

from typing import ClassVar

from dedupe_crds.status.exit_code import ExitCode


class StreamError(Exception):
    """An error whose message names the problem, its place and the remedy.

    `kafka_code` is the code of librdkafka's error that caused it: negative if the client found it, not Kafka.
    """

    kafka_code: int | None = None
    retriable: ClassVar[bool] = False
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    @property
    def reason(self) -> str:
        """Return the error's name as users see it."""
        return type(self).__name__


class Stopped(Exception):
    """The caller was asked to stop before Kafka answered.

    Not a StreamError, because it is no failure: there is nothing to repair, and no status names it.
    """


class InvalidConfig(StreamError):
    """The configuration is not valid."""

    exit_code = ExitCode.CONFIG


class Fenced(StreamError):
    """A newer worker of the same partition has taken over."""

    exit_code = ExitCode.FENCED


class TransactionExpired(StreamError):
    """A transaction outlived its time-out or was aborted; no newer worker exists."""

    retriable = True


class TakeOverContested(StreamError):
    """Another producer took over before this one's take-over was recorded."""

    retriable = True


class BrokerUnavailable(StreamError):
    """Kafka does not answer, or aborted a transaction."""

    retriable = True


class ClientFailed(StreamError):
    """The client library failed in a way that names no cause."""

    retriable = True


class QueueTooSmall(StreamError):
    """A record is larger than the whole queue of a producer.

    The next session has one that is twice as large, until a process of the stream starts again.
    """

    retriable = True

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"{topic}: a record is larger than the limit of what is sent and not acknowledged. The limit is doubled; "
            "raise spec.worker.tuning.queueBytes above the largest record, so that no start has to do it again"
        )


class NotAuthorized(StreamError):
    """Kafka refuses the credentials, or an ACL is missing."""

    retriable = True


class TopicMissing(StreamError):
    """A topic or partition of the stream does not exist."""

    retriable = True


class NoLeader(StreamError):
    """No broker leads a partition, so no client can read it."""

    retriable = True


class TopicRefused(StreamError):
    """The cluster's policies do not allow the topic to be created."""

    retriable = True


class TransactionTimeoutRefused(StreamError):
    """The brokers allow no transaction to last as long as the product's may."""

    retriable = True


class TopicUnusable(StreamError):
    """With this topic's settings the stream cannot keep its guarantees."""


class OpenTransaction(StreamError):
    """A transaction stays open, so the last stable offset does not advance."""

    retriable = True


class RecordsExpired(StreamError):
    """Retention, or a user, deleted records before they were read."""


class RecordsLost(StreamError):
    """The brokers have lost records that were read; others may come in their place."""


class HoldingRecord(StreamError):
    """A record cannot pass. No record is skipped, so its partition waits before it."""

    retriable = True


class RecordCorrupt(HoldingRecord):
    """A batch of records does not match its checksum; a replica may be repaired."""


class RecordUnreadable(HoldingRecord):
    """The client library cannot read a record, because of a header's name."""


class RecordRefused(HoldingRecord):
    """The output topic refuses a record."""


class RecordTooLarge(RecordRefused):
    """The output topic refuses a record because of its size."""
