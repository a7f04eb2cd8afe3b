"""Errors of the plugin, under the root of all errors of dedupestream.

Each message is one line that says what happened, to what, and what to do; the process prints it and exits with 1.
Invariant: this package imports no Kafka client. `dedupe_kafka.errors` needs none.
"""

from dedupe_kafka.errors import StreamError


class PluginError(StreamError):
    """An error that a user can fix."""


class NoAccess(PluginError):
    """The API server is not configured, does not answer or refuses the credentials."""

    retriable = True


class Forbidden(PluginError):
    """The API server knows the user, but RBAC does not allow this."""


class WorkerRefused(PluginError):
    """A worker refused an admin call; the message is the worker's."""


class NotFound(PluginError):
    """The object does not exist."""


class TimedOut(PluginError):
    """The operator did not finish a request within `--timeout`."""
