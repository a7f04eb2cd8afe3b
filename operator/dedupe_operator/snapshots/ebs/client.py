"""Amazon EC2's API: clients whose calls end within seconds, and their errors by the names users see."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final

from botocore import exceptions as botocore_errors
from botocore.exceptions import BotoCoreError, ClientError

from dedupe_operator.errors import KubernetesError
from dedupe_operator.snapshots.provider import ProviderError

if TYPE_CHECKING:
    from boto3 import Session
    from mypy_boto3_ec2 import EC2Client

_CONNECT_SECONDS: Final = 2.0
_ATTEMPTS: Final = 3
_LONGEST_MESSAGE: Final = 400

_NO_REGION: Final = (botocore_errors.NoRegionError, botocore_errors.InvalidRegionError)
_NO_ANSWER: Final = (botocore_errors.HTTPClientError, botocore_errors.ConnectionError)
_NO_CREDENTIALS: Final = (
    botocore_errors.NoCredentialsError,
    botocore_errors.PartialCredentialsError,
    botocore_errors.CredentialRetrievalError,
    botocore_errors.ProfileNotFound,
    OSError,  # the file with IRSA's token is not there
)
_DENIED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "Blocked",
        "ExpiredToken",
        "ExpiredTokenException",
        "IDPRejectedClaim",
        "InvalidClientTokenId",
        "InvalidIdentityToken",
        "OptInRequired",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnauthorizedOperation",
        "UnrecognizedClientException",
    }
)
_THROTTLED: Final = frozenset(
    {"RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException"}
)
_QUOTA: Final = frozenset(
    {
        "ConcurrentSnapshotLimitExceeded",
        "InsufficientVolumeCapacity",
        "MaxIOPSLimitExceeded",
        "ResourceLimitExceeded",
        "SnapshotCreationPerVolumeRateExceeded",
        "SnapshotLimitExceeded",
        "VolumeLimitExceeded",
    }
)
# Not yet in the state it is going to be in.
_EARLY: Final = frozenset({"IncorrectState", "InvalidState"})
# "… is not authorized to perform: ec2:CreateTags on resource: …"
_ACTION: Final = re.compile(r"authorized to perform:? ([a-z0-9-]+:\w+)")
# Kilobytes that only `aws sts decode-authorization-message` can read.
_ENCODED: Final = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)


class Ec2:
    """Clients by region, made when they are first asked for: one takes 30 MiB of memory.

    Credentials come from botocore's usual chain: environment, IRSA, instance profile. The end of an
    attempt is `answer_seconds` after the request was sent.
    """

    def __init__(self, *, answer_seconds: float) -> None:
        self._lock = Lock()
        self._clients: dict[tuple[str | None, int], EC2Client] = {}
        self._answer_seconds = answer_seconds
        self._session: Session | None = None

    def client(self, region: str | None) -> "EC2Client":
        """A client for calls that may be repeated. Without a region, that of the environment."""
        return self._client(region, _ATTEMPTS)

    def client_for_one_attempt(self, region: str | None) -> "EC2Client":
        """A client for calls of which each would act anew."""
        return self._client(region, 1)

    def _client(self, region: str | None, attempts: int) -> "EC2Client":
        with self._lock:  # a session may not be used by several threads, its clients may
            if (region, attempts) not in self._clients:
                self._clients[region, attempts] = self._make(region, attempts)
            return self._clients[region, attempts]

    def _make(self, region: str | None, attempts: int) -> "EC2Client":
        # Here, because importing them is a fifth of an operator's start, and few have to do with EBS.
        from boto3 import Session  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415
        from botocore.session import Session as BotocoreSession  # noqa: PLC0415

        if self._session is None:
            session = BotocoreSession()
            # As the session's default it bounds the calls to STS as well, which IRSA makes on its own.
            session.set_default_client_config(
                Config(
                    connect_timeout=_CONNECT_SECONDS,
                    read_timeout=self._answer_seconds,
                    retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
                    user_agent_extra="dedupestream-operator",
                )
            )
            self._session = Session(botocore_session=session)
        return self._session.client(
            "ec2",
            region_name=region,
            config=Config(retries={"mode": "standard", "total_max_attempts": attempts}),
        )


@contextmanager
def provider_errors() -> Iterator[None]:
    """Raise what AWS and the API server refuse as ProviderError."""
    try:
        yield
    except ClientError as error:
        raise _refusal(error) from error
    except _NO_REGION as error:
        message = f"{error}: set spec.snapshots.ebs.region, or AWS_DEFAULT_REGION of the operator"
        raise ProviderError("RegionUnknown", message, final=False) from error
    except _NO_ANSWER as error:
        message = f"AWS does not answer: {error}"
        raise ProviderError("AwsUnavailable", message, final=False) from error
    except _NO_CREDENTIALS as error:
        message = (
            f"the operator has no AWS credentials that can be used ({error}): give its "
            "ServiceAccount a role, as docs/aws.md says"
        )
        raise ProviderError("AccessDenied", message, final=False) from error
    except BotoCoreError as error:
        raise ProviderError("AwsRefused", str(error), final=False) from error
    except KubernetesError as error:
        raise ProviderError(error.reason, str(error), final=False) from error


def code_of(error: ClientError) -> str:
    """AWS' name of an error, such as `InvalidSnapshot.NotFound`."""
    return error.response.get("Error", {}).get("Code", "")


def may_have_acted(error: ClientError) -> bool:
    """Whether AWS may have done what it answered with an error."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    return status >= 500 and code_of(error) not in _THROTTLED


def _refusal(error: ClientError) -> ProviderError:
    code, operation = code_of(error), error.operation_name
    said = _ENCODED.sub("", error.response.get("Error", {}).get("Message", ""))
    said = f"{operation}: {code}: {said[:_LONGEST_MESSAGE]}".removesuffix(": ")
    if code in _DENIED:
        return ProviderError("AccessDenied", _advice(operation, said), final=False)
    if code in _THROTTLED:
        return ProviderError("Throttled", f"AWS throttles: {said}", final=False)
    if code in _QUOTA:
        message = f"a quota of the AWS account is reached: {said}"
        return ProviderError("QuotaExceeded", message, final=False)
    if may_have_acted(error):
        return ProviderError("AwsUnavailable", f"AWS failed: {said}", final=False)
    if code in _EARLY:
        return ProviderError("NotReadyYet", said, final=False)
    return ProviderError("AwsRefused", f"AWS refuses {said}", final=True)


def _advice(operation: str, said: str) -> str:
    """What is to be allowed, as AWS or the operation itself names it."""
    named = _ACTION.search(said)
    service = "sts" if operation.startswith("Assume") else "ec2"
    action = named[1] if named else f"{service}:{operation}"
    return f"AWS does not allow {action} to the operator, see docs/aws.md for the policy: {said}"
