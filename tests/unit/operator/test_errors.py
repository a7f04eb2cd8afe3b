"""What the API server refuses, by the name a user sees."""

import pytest

from dedupe_operator.errors import Unreachable, refusal_reason


@pytest.mark.parametrize(
    ("status", "message", "reason"),
    [
        (403, "exceeded quota: small, requested: pods=1", "QuotaExceeded"),
        (403, 'violates PodSecurity "restricted:latest"', "PodSecurityViolated"),
        (400, 'admission webhook "a" denied the request: no', "AdmissionDenied"),
        (422, "ValidatingAdmissionPolicy 'a' with binding 'b' denied request", "AdmissionDenied"),
        (403, "User cannot create resource", "Forbidden"),
        (422, "spec: Forbidden: updates to statefulset spec for fields other", "FieldImmutable"),
        (422, "Invalid value: field is immutable", "FieldImmutable"),
        (422, "spec.storage.size: Invalid value", "Invalid"),
        (403, "field is immutable", "Forbidden"),
        (401, "Unauthorized", "Unauthorized"),
        (404, "not found", "NotFound"),
        (409, "conflict", "Conflict"),
        (500, "etcd is away", "ApiServerError"),
        (429, "slow down", "ApiServerError"),
    ],
)
def test_a_refusal_has_one_stable_name(status: int, message: str, reason: str) -> None:
    assert refusal_reason(status, message) == reason


def test_an_api_server_out_of_reach_has_a_name_too() -> None:
    assert Unreachable("no answer").reason == "ApiServerUnreachable"
