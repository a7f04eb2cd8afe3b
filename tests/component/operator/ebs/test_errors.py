"""What AWS refuses or never answers, by the reason users see, and whether it is tried again."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


@pytest.fixture
def silence() -> Iterator[Fault]:
    """No answer for as long as the test lasts."""
    over = Event()

    def fault(_: Request, __: Forward) -> None:
        over.wait(HANG_SECONDS)

    yield fault
    over.set()


@dataclass(frozen=True, kw_only=True)
class Case:
    """A fault, and the error that a look gives which meets it.

    `passes`: a call that may be repeated gets over two of them in one look. `may_have_acted`: AWS may have done what
    was asked, so nothing is created again until it would be listed.
    """

    fault: Fault
    reason: str
    said: str = "."
    final: bool = False
    passes: bool = False
    may_have_acted: bool = False


def denied(code: str, message: str = "no reason") -> Fault:
    return answering(403, error(code, message))


def refused(code: str, message: str = "no reason") -> Fault:
    return answering(400, error(code, message))


NAMED = (
    "You are not authorized to perform this operation. User: arn:aws:sts::123456789012:"
    "assumed-role/operator/1 is not authorized to perform: ec2:CreateTags on resource: "
    "arn:aws:ec2:eu-central-1::snapshot/*. Encoded authorization failure message: " + "x" * 999
)
CASES = {
    "throttled": Case(
        fault=answering(503, error("RequestLimitExceeded")), reason="Throttled", passes=True
    ),
    "failed": Case(
        fault=answering(500, error("InternalError")),
        reason="AwsUnavailable",
        passes=True,
        may_have_acted=True,
    ),
    "cut off": Case(fault=cut, reason="AwsUnavailable", passes=True, may_have_acted=True),
    **{
        code: Case(
            fault=denied(code), reason="AccessDenied", said=r"allow ec2:{call} .* docs/aws\.md"
        )
        for code in ("UnauthorizedOperation", "AuthFailure", "RequestExpired")
    },
    "not allowed, with the name of an action": Case(
        fault=denied("UnauthorizedOperation", NAMED),
        reason="AccessDenied",
        said="^(?!.*xxx).*does not allow ec2:CreateTags",
    ),
    **{
        code: Case(fault=refused(code), reason="QuotaExceeded", said=code)
        for code in (
            "SnapshotCreationPerVolumeRateExceeded",
            "ConcurrentSnapshotLimitExceeded",
            "SnapshotLimitExceeded",
            "VolumeLimitExceeded",
        )
    },
    "the volume is in between": Case(fault=refused("IncorrectState"), reason="NotReadyYet"),
    "what AWS never takes": Case(
        fault=refused("InvalidParameterValue", "tag keys must not begin with aws:"),
        reason="AwsRefused",
        said="must not begin with aws:",
        final=True,
    ),
}


def met(aws: AwsScene, call: str, case: Case, look: Callable[[], object], *, times: int) -> None:
    """Let a look meet a fault so many times, and compare the error that it gives."""
    aws.proxy.inject(calls(call), case.fault, times=times)
    with pytest.raises(ProviderError, match=case.said.format(call=call)) as raised:
        look()
    assert refusal(raised) == (case.reason, case.final)
    assert aws.proxy.pending == 0


@pytest.mark.parametrize("call", ["DescribeSnapshots", "CreateVolume"])
def test_a_call_that_may_be_repeated_gets_over_what_passes_and_tells_what_lasts(
    aws: AwsScene, call: str
) -> None:
    job = aws.taken()
    for number, case in enumerate(CASES.values(), start=2):

        def look(claim: str = f"orders-0-{number}") -> bool:
            if call == "DescribeSnapshots":
                return aws.provider.status(job).usable
            return bool(aws.restored(job, claim))

        met(aws, call, case, look, times=3 if case.passes else 1)
        if case.passes:
            aws.proxy.inject(calls(call), case.fault, times=2)
        assert look()
        assert aws.proxy.pending == 0
    assert len(aws.restored_volumes()) == (len(CASES) if call == "CreateVolume" else 0)


def test_a_snapshot_is_asked_for_once_in_a_look_and_again_as_soon_as_it_can_be_no_other(
    aws: AwsScene,
) -> None:
    for case in CASES.values():
        aws.restarted()
        aws.proxy.seen.clear()
        met(aws, "CreateSnapshot", case, lambda: aws.provider.start(aws.job()), times=1)
        assert sum(one.action == "CreateSnapshot" for one in aws.proxy.seen) == 1
        if case.may_have_acted:
            with pytest.raises(ProviderError, match="was lost"):
                aws.provider.start(aws.job())
            aws.restarted()
        assert [aws.provider.start(aws.job())] == aws.snapshot_ids()
        aws.provider.remove(aws.job())


def test_a_look_ends_though_aws_does_not_answer(aws: AwsScene, silence: Fault) -> None:
    job = aws.taken()
    aws.restarted(answer_seconds=0.1)
    aws.proxy.inject(calls(), silence, times=99)
    with pytest.raises(ProviderError, match="does not answer") as raised:
        aws.provider.status(job)
    assert refusal(raised) == ("AwsUnavailable", False)
    until(lambda: aws.proxy.pending <= 99 - 3)  # the proxy may hear of the last one late
    assert aws.proxy.pending == 99 - 3


@pytest.mark.parametrize(
    ("variables", "reason", "said"),
    [
        ({"AWS_ENDPOINT_URL_EC2": "http://127.0.0.1:1"}, "AwsUnavailable", "does not answer"),
        ({"AWS_DEFAULT_REGION": None}, "RegionUnknown", r"set spec\.snapshots\.ebs\.region"),
        (
            {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None},
            "AccessDenied",
            r"docs/aws\.md",
        ),
    ],
    ids=["nobody listens", "no region", "no credentials"],
)
def test_what_the_operator_lacks_is_said(
    aws: AwsScene,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str | None],
    reason: str,
    said: str,
) -> None:
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    with pytest.raises(ProviderError, match=said) as raised:
        aws.restarted().start(aws.job())
    assert refusal(raised) == (reason, False)


def test_a_region_that_can_be_none_is_told(aws: AwsScene) -> None:
    aws.changes["spec.snapshots"] |= {"ebs": {"region": "eu central"}}
    with pytest.raises(ProviderError, match="eu central") as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("RegionUnknown", False)


def test_what_the_api_server_refuses_keeps_its_reason(
    aws: AwsScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise KubernetesError("Forbidden", "may not read persistentvolumes")

    monkeypatch.setattr(aws.cluster, "get", forbidden)
    with pytest.raises(ProviderError, match="persistentvolumes") as raised:
        aws.provider.start(aws.job())
    assert refusal(raised) == ("Forbidden", False)


def test_no_secret_is_told(
    aws: AwsScene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", MARK)
    monkeypatch.setenv("AWS_SESSION_TOKEN", MARK)
    aws.restarted()
    aws.taken()
    for code in ("AuthFailure", "UnauthorizedOperation", "InternalError"):
        aws.proxy.inject(calls(), denied(code), times=3)
        with pytest.raises(ProviderError) as raised:
            aws.provider.start(aws.job())
        assert MARK not in f"{raised.value!r} {raised.value.__cause__!r}"
        aws.proxy.clear()
    assert MARK not in caplog.text
    assert "snap-" in caplog.text


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
    fault = denied("AccessDenied", "not allowed")
    aws.proxy.inject(calls("AssumeRoleWithWebIdentity"), fault)
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
