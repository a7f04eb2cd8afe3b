"""Errors of the operator, and the reasons that users see for API server refusals.

Those about a stream belong to the project's one hierarchy below `StreamError`: `retriable` is a property of the class,
`reason` is one stable CamelCase word. If the API server, a worker or a provider names the reason, the error carries it.
"""

import re
from typing import Final

from dedupe_crds.annotations import ROUTERS_OF, STREAM
from dedupe_kafka.errors import StreamError
from dedupe_operator.kubernetes.names import Object


class ReportedError(StreamError):
    """An error whose reason another program reported."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self._reason = reason

    @property
    def reason(self) -> str:
        """Return the reported reason."""
        return self._reason


class KubernetesError(ReportedError):
    """A request to the API server failed. The next pass retries it."""

    retriable = True


class Unreachable(KubernetesError):
    """The API server did not answer, or not as an API server."""

    def __init__(self, message: str) -> None:
        super().__init__("ApiServerUnreachable", message)


def _shown(wanted: Object) -> str:
    metadata = wanted["metadata"]
    return f"{wanted['kind']} {metadata['namespace']}/{metadata['name']}"


class NameTaken(KubernetesError):
    """An object with a name that the operator needs does not belong to the stream."""

    def __init__(self, live: Object) -> None:
        labels = live["metadata"].get("labels") or {}
        routed = f"the routers of stream {labels[ROUTERS_OF]}" if ROUTERS_OF in labels else ""
        owner = routed or (f"stream {labels[STREAM]}" if STREAM in labels else "")
        whose = f"belongs to {owner}" if owner else "does not belong to this stream"
        super().__init__(
            "NameTaken",
            f"{_shown(live)} {whose} and is left unchanged: rename or remove it, or give the stream another name",
        )


class ChangedByOthers(KubernetesError):
    """Another program changes an object back each time the operator has changed it."""

    def __init__(self, wanted: Object) -> None:
        super().__init__(
            "ChangedByOthers",
            f"another program changes {_shown(wanted)} back each time; it is left unchanged for 10 minutes: see "
            "metadata.managedFields for who it is, and end that",
        )


class LostLeadership(Exception):
    """Another operator may be the leader now: this one must not write any more.

    Not a StreamError, because it ends the process, and is no problem of a stream.
    """


_QUOTA: Final = re.compile(r"exceeded quota|limited to .* quota")
_ADMISSION: Final = re.compile(r"admission webhook|denied the request|ValidatingAdmissionPolicy")
_SECURITY: Final = re.compile(r"violates PodSecurity")
_IMMUTABLE: Final = re.compile(
    r"Forbidden: updates to|field is immutable|Forbidden: spec is immutable"
)


def refusal_reason(status: int, message: str) -> str:
    """Return the reason of a refusal, from an answer or a controller's event.

    >>> refusal_reason(403, 'pods "a" is forbidden: exceeded quota: small, requested: pods=1')
    'QuotaExceeded'
    >>> refusal_reason(403, 'User "x" cannot create resource "pods"')
    'Forbidden'
    """
    for pattern, reason in (
        (_QUOTA, "QuotaExceeded"),
        (_SECURITY, "PodSecurityViolated"),
        (_ADMISSION, "AdmissionDenied"),
    ):
        if pattern.search(message):
            return reason
    if status == 422 and _IMMUTABLE.search(message):
        return "FieldImmutable"
    return {
        401: "Unauthorized",
        403: "Forbidden",
        404: "NotFound",
        409: "Conflict",
        422: "Invalid",
    }.get(status, "ApiServerError")
