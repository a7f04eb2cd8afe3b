"""What the API server refuses, by the name a user sees in a condition."""

import re
from typing import Final


class KubernetesError(Exception):
    """A request to the API server failed. `reason` is one stable CamelCase word."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Unreachable(KubernetesError):
    """The API server did not answer, or not as an API server."""

    def __init__(self, message: str) -> None:
        super().__init__("ApiServerUnreachable", message)


class LostLeadership(Exception):  # a state, as the errors of the whole project
    """Another operator may act now: nothing may be written any more."""


_QUOTA: Final = re.compile(r"exceeded quota|limited to .* quota")
_ADMISSION: Final = re.compile(r"admission webhook|denied the request|ValidatingAdmissionPolicy")
_SECURITY: Final = re.compile(r"violates PodSecurity")
_IMMUTABLE: Final = re.compile(
    r"Forbidden: updates to|field is immutable|Forbidden: spec is immutable"
)


def refusal_reason(status: int, message: str) -> str:
    """Name what an API server's answer, or a controller's event about one, says.

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
