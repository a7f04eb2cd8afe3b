"""Errors of a local run. Each message names the cause, the place and the remedy."""

from dedupe_kafka.errors import StreamError


class LocalError(StreamError):
    """A local run cannot start or cannot continue."""


class Refused(LocalError):
    """The manifest or an option asks for something that a local run does not support."""


class BrokerFailed(LocalError):
    """The embedded broker did not start."""


class PostgresFailed(LocalError):
    """The embedded PostgreSQL did not start."""


class StateInUse(LocalError):
    """Another run uses the state directory."""


class WorkerEnded(LocalError):
    """A worker ended with an error that a restart cannot fix."""


class NotDrained(LocalError):
    """The run ended before all of the input was processed."""


class OutputClosed(LocalError):
    """The process that read the output of the run has ended."""
