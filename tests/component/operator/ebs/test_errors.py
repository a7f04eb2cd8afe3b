"""What AWS refuses or never answers, by the reason users see, and whether it is tried again."""

import logging
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from dedupe_operator.errors import KubernetesError
from dedupe_operator.snapshots.provider import ProviderError
from tests.component.operator.ebs.scene import AwsScene, calls, error, refusal
from tests.support.patience import HANG_SECONDS
from tests.support.processes.faulty_proxy import Fault, Forward, Request, answering, cut
from tests.unit.operator.waits import until

MARK = "hunter2"
THROTTLED = answering(503, error("RequestLimitExceeded"))
FAILED = answering(500, error("InternalError"))


@pytest.fixture
def silence() -> Iterator[Fault]:
    """No answer for as long as the test lasts."""
    over = Event()

    def fault(_: Request, __: Forward) -> None:
        over.wait(HANG_SECONDS)

    yield fault
    over.set()


@pytest.mark.parametrize("fault", [THROTTLED, FAILED, cut])
def test_a_look_gets_over_what_passes(aws: AwsScene, fault: Fault) -> None:
    job = aws.taken()
    aws.proxy.inject(calls("DescribeSnapshots"), fault, times=2)
    assert aws.provider.status(job).usable
    assert aws.proxy.pending == 0


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(THROTTLED, "Throttled"), (FAILED, "AwsUnavailable"), (cut, "AwsUnavailable")],
)
def test_what_lasts_is_tried_again_at_the_next_look(
    aws: AwsScene, fault: Fault, reason: str
) -> None:
    job = aws.taken()
    aws.proxy.inject(calls("DescribeSnapshots"), fault, times=3)
    with pytest.raises(ProviderError) as raised:
        aws.provider.status(job)
    assert refusal(raised) == (reason, False)
    assert aws.provider.status(job).usable


@pytest.mark.parametrize("fault", [THROTTLED, FAILED, cut])
def test_a_snapshot_is_never_asked_for_twice_in_one_look(aws: AwsScene, fault: Fault) -> None:
    aws.proxy.inject(calls("CreateSnapshot"), fault)
    with pytest.raises(ProviderError):
        aws.provider.start(aws.job())
    assert sum(one.action == "CreateSnapshot" for one in aws.proxy.seen) == 1


def test_one_that_was_throttled_is_asked_for_again_at_once(aws: AwsScene) -> None:
    aws.proxy.inject(calls("CreateSnapshot"), THROTTLED)
    with pytest.raises(ProviderError) as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("Throttled", False)
    assert [aws.provider.start(aws.job())] == aws.snapshot_ids()


def test_a_look_ends_though_aws_does_not_answer(aws: AwsScene, silence: Fault) -> None:
    job = aws.taken()
    aws.restarted(answer_seconds=0.1)
    aws.proxy.inject(calls(), silence, times=99)
    with pytest.raises(ProviderError, match="does not answer") as raised:
        aws.provider.status(job)
    assert refusal(raised) == ("AwsUnavailable", False)
    until(lambda: aws.proxy.pending <= 99 - 3)  # the proxy may hear of the last one late
    assert aws.proxy.pending == 99 - 3


def test_nobody_listening_is_no_answer(aws: AwsScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:1")
    with pytest.raises(ProviderError) as raised:
        aws.restarted().start(aws.job())
    assert refusal(raised) == ("AwsUnavailable", False)


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "AuthFailure", "RequestExpired"])
def test_what_is_not_allowed_is_named_by_its_operation(aws: AwsScene, code: str) -> None:
    aws.proxy.inject(calls("CreateSnapshot"), answering(403, error(code)))
    with pytest.raises(ProviderError, match=r"allow ec2:CreateSnapshot .* docs/aws\.md") as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("AccessDenied", False)
    assert aws.provider.start(aws.job())  # once it is allowed, without waiting


def test_what_is_not_allowed_is_named_as_aws_names_it(aws: AwsScene) -> None:
    said = (
        "You are not authorized to perform this operation. User: arn:aws:sts::123456789012:"
        "assumed-role/operator/1 is not authorized to perform: ec2:CreateTags on resource: "
        "arn:aws:ec2:eu-central-1::snapshot/*. Encoded authorization failure message: " + "x" * 999
    )
    denied = answering(403, error("UnauthorizedOperation", said))
    aws.proxy.inject(calls("CreateSnapshot"), denied)
    with pytest.raises(ProviderError, match="does not allow ec2:CreateTags") as raised:
        aws.provider.start(aws.job())
    assert "xxx" not in str(raised.value)


@pytest.mark.parametrize(
    "code",
    [
        "SnapshotCreationPerVolumeRateExceeded",
        "ConcurrentSnapshotLimitExceeded",
        "SnapshotLimitExceeded",
    ],
)
def test_a_quota_is_waited_for(aws: AwsScene, code: str) -> None:
    aws.proxy.inject(calls("CreateSnapshot"), answering(400, error(code)))
    with pytest.raises(ProviderError, match=code) as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("QuotaExceeded", False)
    assert aws.provider.start(aws.job())


def test_a_volume_that_is_in_between_is_waited_for(aws: AwsScene) -> None:
    aws.proxy.inject(calls("CreateSnapshot"), answering(400, error("IncorrectState")))
    with pytest.raises(ProviderError) as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("NotReadyYet", False)


def test_what_aws_never_takes_is_final(aws: AwsScene) -> None:
    refused = answering(400, error("InvalidParameterValue", "tag keys must not begin with aws:"))
    aws.proxy.inject(calls("CreateSnapshot"), refused)
    with pytest.raises(ProviderError, match="must not begin with aws:") as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("AwsRefused", True)


def test_without_a_region_it_is_said_where_to_put_it(
    aws: AwsScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ProviderError, match=r"set spec\.snapshots\.ebs\.region") as raised:
        aws.restarted().start(aws.job())
    assert refusal(raised) == ("RegionUnknown", False)


def test_a_region_that_can_be_none_is_told(aws: AwsScene) -> None:
    aws.changes["spec.snapshots"] |= {"ebs": {"region": "eu central"}}
    with pytest.raises(ProviderError, match="eu central") as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("RegionUnknown", False)


def test_without_credentials_it_is_said_how_to_give_them(
    aws: AwsScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ProviderError, match=r"docs/aws\.md") as raised:
        aws.restarted().start(aws.job())
    assert refusal(raised) == ("AccessDenied", False)


def test_no_secret_is_told(
    aws: AwsScene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", MARK)
    monkeypatch.setenv("AWS_SESSION_TOKEN", MARK)
    aws.restarted()
    aws.taken()
    for code in ("AuthFailure", "UnauthorizedOperation", "InternalError"):
        aws.proxy.inject(calls(), answering(403, error(code)), times=3)
        with pytest.raises(ProviderError) as raised:
            aws.provider.start(aws.job())
        assert MARK not in f"{raised.value!r} {raised.value.__cause__!r}"
        aws.proxy.clear()
    assert MARK not in caplog.text
    assert "snap-" in caplog.text


def test_what_the_api_server_refuses_keeps_its_reason(
    aws: AwsScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise KubernetesError("Forbidden", "may not read persistentvolumes")

    monkeypatch.setattr(aws.cluster, "get", forbidden)
    with pytest.raises(ProviderError, match="persistentvolumes") as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("Forbidden", False)


@pytest.fixture
def irsa(aws: AwsScene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A pod whose ServiceAccount has a role; gives the file with its token."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    token = tmp_path / "token"
    token.write_text(MARK)
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/operator")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", aws.proxy.url)
    return token


@pytest.mark.usefixtures("irsa")
def test_a_role_of_the_service_account_is_taken_on(aws: AwsScene) -> None:
    aws.restarted().start(aws.job())
    assert "AssumeRoleWithWebIdentity" in {one.action for one in aws.proxy.seen}
    assert "Credential=key/" not in aws.proxy.seen[-1].headers["authorization"]


def test_a_role_that_may_not_be_taken_on_is_told(aws: AwsScene, irsa: Path) -> None:
    denied = answering(403, error("AccessDenied", "not allowed"))
    aws.proxy.inject(calls("AssumeRoleWithWebIdentity"), denied)
    with pytest.raises(ProviderError, match="sts:AssumeRoleWithWebIdentity") as raised:
        aws.restarted().start(aws.job())
    assert refusal(raised) == ("AccessDenied", False)
    irsa.unlink()
    with pytest.raises(ProviderError, match=r"docs/aws\.md") as raised:
        aws.restarted().start(aws.job())
    assert refusal(raised) == ("AccessDenied", False)


@pytest.mark.usefixtures("irsa")
def test_a_look_ends_though_roles_are_not_to_be_had(aws: AwsScene, silence: Fault) -> None:
    aws.restarted(answer_seconds=0.1)
    aws.proxy.inject(calls("AssumeRoleWithWebIdentity"), silence, times=99)
    with pytest.raises(ProviderError) as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("AwsUnavailable", False)
