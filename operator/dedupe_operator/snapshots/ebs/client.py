"""Clients of Amazon EC2's API with timeouts; its errors as ProviderError.

The EBS provider calls it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final

from botocore import exceptions as botocore_errors
from botocore.exceptions import BotoCoreError, ClientError

from dedupe_operator.errors import KubernetesError
from dedupe_operator.snapshots.provider import ProviderError, ProviderFailed

if TYPE_CHECKING:
    from boto3 import Session
    from mypy_boto3_ec2 import EC2Client

_CONNECT_SECONDS: Final = 2.0
_ATTEMPTS: Final = 3
_KEPT: Final = 16
_LONGEST_MESSAGE: Final = 400

_NO_REGION: Final = (botocore_errors.NoRegionError, botocore_errors.InvalidRegionError)
_NO_ANSWER: Final = (botocore_errors.HTTPClientError, botocore_errors.ConnectionError)
_NO_CREDENTIALS: Final = (
    botocore_errors.NoCredentialsError,
    botocore_errors.PartialCredentialsError,
    botocore_errors.CredentialRetrievalError,
    botocore_errors.ProfileNotFound,
    OSError,  # the file with IRSA's token does not exist
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
# The object has not reached the state that the call needs.
_EARLY: Final = frozenset({"IncorrectState", "InvalidState"})
# "… is not authorized to perform: ec2:CreateTags on resource: …"
_ACTION: Final = re.compile(r"authorized to perform:? ([a-z0-9-]+:\w+)")
# Kilobytes of text that only `aws sts decode-authorization-message` can read.
_ENCODED: Final = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)


class Ec2:
    """Clients by region, created on first use, of which the last used ones are kept.

    The first one takes 30 MiB of memory, each other one 1.4 MiB, and users name the regions.
    Credentials come from botocore's usual chain: environment, IRSA, instance profile. An attempt times out
    `answer_seconds` after the request was sent.
    """

    def __init__(self, *, answer_seconds: float) -> None:
        self._lock = Lock()
        self._clients: dict[tuple[str | None, int], EC2Client] = {}  # the last used is the last
        self._answer_seconds = answer_seconds
        self._session: Session | None = None

    def client(self, region: str | None) -> "EC2Client":
        """Return a client for calls that may be repeated; region None: default."""
        return self._client(region, _ATTEMPTS)

    def client_for_one_attempt(self, region: str | None) -> "EC2Client":
        """Return a client for calls that must not be repeated automatically."""
        return self._client(region, 1)

    def _client(self, region: str | None, attempts: int) -> "EC2Client":
        with self._lock:  # a session is not safe for several threads, its clients are
            client = self._clients.pop((region, attempts), None) or self._make(region, attempts)
            self._clients[region, attempts] = client
            if len(self._clients) > _KEPT:
                del self._clients[next(iter(self._clients))]
            return client

    def _make(self, region: str | None, attempts: int) -> "EC2Client":
        # Imported here: it takes a fifth of the operator's start, and few streams use EBS.
        from boto3 import Session  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415
        from botocore.session import Session as BotocoreSession  # noqa: PLC0415

        if self._session is None:
            session = BotocoreSession()
            # As the session's default it also bounds the calls to STS that IRSA makes.
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
    """Raise errors of AWS and of the API server as ProviderError."""
    try:
        yield
    except ClientError as error:
        raise _refusal(error) from error
    except _NO_REGION as error:
        message = f"{error}: set spec.snapshots.ebs.region, or AWS_DEFAULT_REGION of the operator"
        raise ProviderError("RegionUnknown", message) from error
    except _NO_ANSWER as error:
        message = f"AWS does not answer: {error}"
        raise ProviderError("AwsUnavailable", message) from error
    except _NO_CREDENTIALS as error:
        message = (
            f"the operator has no usable AWS credentials ({error}): give its "
            "ServiceAccount a role, see docs/aws.md"
        )
        raise ProviderError("AccessDenied", message) from error
    except BotoCoreError as error:
        raise ProviderError("AwsRefused", str(error)) from error
    except KubernetesError as error:
        raise ProviderError(error.reason, str(error)) from error


def code_of(error: ClientError) -> str:
    """Return AWS' code of an error, for example `InvalidSnapshot.NotFound`."""
    return error.response.get("Error", {}).get("Code", "")


def may_have_acted(error: ClientError) -> bool:
    """Return whether AWS may have carried out a call although it returned an error."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    return status >= 500 and code_of(error) not in _THROTTLED


def _refusal(error: ClientError) -> ProviderError:
    code, operation = code_of(error), error.operation_name
    detail = _ENCODED.sub("", error.response.get("Error", {}).get("Message", ""))
    detail = f"{operation}: {code}: {detail[:_LONGEST_MESSAGE]}".removesuffix(": ")
    if code in _DENIED:
        return ProviderError("AccessDenied", _advice(operation, detail))
    if code in _THROTTLED:
        return ProviderError("Throttled", f"AWS throttles: {detail}")
    if code in _QUOTA:
        message = f"a quota of the AWS account is reached: {detail}"
        return ProviderError("QuotaExceeded", message)
    if may_have_acted(error):
        return ProviderError("AwsUnavailable", f"AWS failed: {detail}")
    if code in _EARLY:
        return ProviderError("NotReadyYet", detail)
    return ProviderFailed("AwsRefused", f"AWS refuses {detail}")


def _advice(operation: str, detail: str) -> str:
    """Return the message with the missing IAM action, as far as AWS names it."""
    named = _ACTION.search(detail)
    service = "sts" if operation.startswith("Assume") else "ec2"
    action = named[1] if named else f"{service}:{operation}"
    return f"AWS does not allow {action} to the operator, see docs/aws.md for the policy: {detail}"
