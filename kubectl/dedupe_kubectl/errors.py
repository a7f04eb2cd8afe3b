"""Errors of the plugin, under the root of all errors of dedupestream.

Each message is one line that says what happened, to what, and what to do; the process prints it and exits with 3.
Invariant: this package imports no Kafka client. `dedupe_kafka.errors` needs none.
"""

from typing import Final

from dedupe_crds.spec.stream import API_VERSION
from dedupe_kafka.errors import StreamError

INSTALL: Final = (
    "helm install dedupestream charts/dedupestream -n dedupestream-system --create-namespace"
)


class PluginError(StreamError):
    """An error that a user can fix."""


class NoAccess(PluginError):
    """The API server is not configured, does not answer or refuses the credentials."""

    retriable = True


class Unanswered(NoAccess):
    """The whole answer did not come in time, or was too long."""


class Forbidden(PluginError):
    """The API server knows the user, but RBAC does not allow this."""


class WorkerRefused(PluginError):
    """A worker refused an admin call; the message is the worker's."""


class Conflict(PluginError):
    """The object has changed since it was read."""


class NotFound(PluginError):
    """The object does not exist."""


class TimedOut(PluginError):
    """The operator did not finish a request within `--timeout`."""


def refusal(code: int, answer: object, act: str) -> PluginError:
    """Return the error for an answer of the API server that is not a success."""
    status = answer if isinstance(answer, dict) else {}
    message = str(status.get("message") or f"status {code}")
    if code == 401:
        return NoAccess(
            f"the API server does not accept your credentials: log in again, to {act} ({message})"
        )
    if code == 403:
        return Forbidden(
            f"you may not {act}: ask for the ClusterRole view, or edit to change streams ({message})"
        )
    if code == 409:
        return Conflict(f"cannot {act}: {message}")
    if code == 404 and (status.get("details") or {}).get("name"):
        return NotFound(
            f"cannot {act}: it does not exist; `kubectl dedupe status -A` lists all streams, "
            "`kubectl dedupe snapshots` their snapshots"
        )
    if code == 404:
        return NotFound(
            f"cannot {act}: this cluster has no such kind in {API_VERSION}; install the operator "
            f"with its chart: {INSTALL}"
        )
    return PluginError(f"cannot {act}: {message}")
