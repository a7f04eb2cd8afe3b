"""The root of everything that can go wrong with a stream, and what can go wrong with Kafka, by name.

`reason` is the stable CamelCase word users see in `/readyz`, metrics and conditions. An error that is
`retriable` may go away by itself or by what a person does elsewhere, and is tried again with back-off; any
other stays until what was asked for is changed. A worker process ends of it with its `exit_code`.
"""

from typing import ClassVar

from dedupe_crds.status.worker import ExitCode


class StreamError(Exception):
    """What happened, to what, and what to do about it."""

    retriable: ClassVar[bool] = False
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    @property
    def reason(self) -> str:
        """The error's name as users see it."""
        return type(self).__name__


class InvalidConfig(StreamError):
    """The configuration can't be used as it is."""

    exit_code = ExitCode.CONFIG


class Fenced(StreamError):
    """A newer worker of the same partition has taken over."""

    exit_code = ExitCode.FENCED


class BrokerUnavailable(StreamError):
    """Kafka does not answer, or gave up on a transaction."""

    retriable = True


class NotAuthorized(StreamError):
    """Kafka refuses the credentials or the rights that go with them."""

    retriable = True


class TopicMissing(StreamError):
    """A topic or partition the stream names does not exist."""

    retriable = True


class TopicRefused(StreamError):
    """The cluster's rules do not allow a topic that was to be created."""

    retriable = True


class TopicUnusable(StreamError):
    """A topic is set up so that the stream would lose what it promises."""


class RecordRefused(StreamError):
    """The output topic refuses a record; nothing is skipped, so the partition waits."""

    retriable = True


class RecordTooLarge(RecordRefused):
    """The output topic refuses a record for its size."""
