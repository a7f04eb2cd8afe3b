"""What the API server refuses, by the name a user sees."""

import pytest

from dedupe_kafka.errors import StreamError
from dedupe_operator.credentials import CredentialsUnusable
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.snapshot_policy import InvalidSchedule
from dedupe_operator.errors import KubernetesError, LostLeadership, Unreachable, refusal_reason
from dedupe_operator.snapshots.provider import ProviderError, ProviderFailed
from dedupe_operator.worker_client import CommandInvalid, WorkerRefused


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


def test_every_error_about_a_stream_is_below_the_projects_root() -> None:
    errors: dict[type[StreamError], bool] = {
        CredentialsUnusable: True,
        InvalidSchedule: False,
        KubernetesError: True,
        ProviderError: True,
        ProviderFailed: False,
        WorkerRefused: True,
        CommandInvalid: False,
    }
    assert all(issubclass(error, StreamError) for error in errors)
    assert {error: error.retriable for error in errors} == errors


def test_a_lost_lease_is_no_problem_of_a_stream() -> None:
    assert not issubclass(LostLeadership, StreamError)


def test_a_reported_error_has_the_reason_that_was_reported() -> None:
    assert KubernetesError("QuotaExceeded", "no").reason == "QuotaExceeded"
    problem = Problem(reason="SecretMissing", message="create it")
    assert CredentialsUnusable(problem).reason == "SecretMissing"
