"""What can go wrong in a local run. Each message says what happened, to what, and what to do."""

from dedupe_kafka.errors import StreamError


class LocalError(StreamError):
    """A local run cannot start or cannot go on."""


class Refused(LocalError):
    """The manifest asks for what a local run, or this version, does not do."""


class BrokerFailed(LocalError):
    """The embedded broker did not start."""


class PostgresFailed(LocalError):
    """The embedded PostgreSQL did not start."""


class StateInUse(LocalError):
    """Another run has the state directory."""


class WorkerEnded(LocalError):
    """A worker ended in a way that starting it again cannot mend."""


class NotDrained(LocalError):
    """The input was not read to its end."""
