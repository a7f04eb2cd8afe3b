"""Read a stream's Kafka credentials, and restrict them to what a connection needs.

A Secret is a user's text, and librdkafka has properties that load libraries or run commands. A worker may use them: it
has access to its own stream only. The operator has access to many namespaces, so it accepts only the properties that
open a connection, and only files that are in the Secret itself, which it gives to the client as text: nothing is
written to its disk. To a token endpoint the client sends HTTP requests, so only those that the platform allows are
accepted. Called by the reconciler and when Kafka is asked.
"""

from base64 import b64decode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.client import parse_properties
from dedupe_kafka.errors import StreamError
from dedupe_operator.decide.allow_list import AllowList
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources.pod_parts import KAFKA_MOUNT, PROPERTIES_KEY

_FILES: Final = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}
"""Properties that name a file, and those that take its text."""

_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_ACCEPTED: Final = frozenset(_FILES) | {
    "broker.address.family",
    "client.dns.lookup",
    "enable.ssl.certificate.verification",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    _ENDPOINT,
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.key.pem",
}


class CredentialsUnusable(StreamError):
    """The Secret is absent or is not valid as Kafka properties; a user fixes it."""

    retriable = True

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem

    @property
    def reason(self) -> str:
        """Return the reason of the problem."""
        return self.problem.reason


def secret_data(stream: DedupeStream, secret: Object | None) -> dict[str, bytes]:
    """Return the content of the stream's Secret; empty if the spec names none.

    Raises CredentialsUnusable.
    """
    reference = stream.spec.kafka.config_secret_ref
    if reference is None:
        return {}
    where = f"Secret {stream.metadata.namespace}/{reference.name} (spec.kafka.configSecretRef)"
    if secret is None:
        message = f"{where} does not exist: create it with the key {PROPERTIES_KEY}"
        raise CredentialsUnusable(Problem(reason="SecretMissing", message=message))
    data = {key: b64decode(value) for key, value in (secret.get("data") or {}).items()}
    if PROPERTIES_KEY not in data:
        message = f"{where} has no key {PROPERTIES_KEY}: put the librdkafka properties there"
        raise CredentialsUnusable(Problem(reason="SecretIncomplete", message=message))
    return data


def secret_hash(data: Mapping[str, bytes], prefix: bytes = b"") -> str:
    """Return a hash of a prefix and the Secret's content; it reveals neither."""
    digest = sha256(prefix)
    for key in sorted(data):
        digest.update(key.encode() + b"\0" + sha256(data[key]).digest())
    return digest.hexdigest()


def client_properties(
    data: Mapping[str, bytes],
    allowed: AllowList = AllowList(),  # noqa: B008 (it is frozen)
) -> dict[str, str]:
    """Return the properties to connect with. Raises CredentialsUnusable."""
    if PROPERTIES_KEY not in data:
        return {}
    text = _text(data, PROPERTIES_KEY)
    try:
        given = parse_properties(text, f"the Secret's {PROPERTIES_KEY}")
    except StreamError as error:
        raise CredentialsUnusable(Problem(reason="SecretInvalid", message=str(error))) from None
    if given.get(_ENDPOINT, "") not in {"", *allowed.token_endpoints}:
        message = (
            f"the operator may not send requests to the {_ENDPOINT} in the Secret: the platform's administrators "
            "allow it with the chart value allowed.tokenEndpoints"
        )
        raise CredentialsUnusable(Problem(reason="TokenEndpointNotAllowed", message=message))
    properties = {name: given[name] for name in given.keys() & _ACCEPTED - _FILES.keys()}
    for name in given.keys() & _FILES.keys():
        text = _file(name, given[name], data)
        # The client uses both; of two certificates or keys the first one.
        properties[_FILES[name]] = "\n".join([*filter(None, [given.get(_FILES[name])]), text])
    return properties


def _file(name: str, location: str, data: Mapping[str, bytes]) -> str:
    path = PurePosixPath(location)
    if str(path.parent) != KAFKA_MOUNT or path.name not in data:
        message = (
            # Without the value: it may be the text of a key, put there by mistake.
            f"{name} names no file of the Secret: add the file as a key, and write its path as "
            f"{KAFKA_MOUNT}/<key>"
        )
        raise CredentialsUnusable(Problem(reason="SecretInvalid", message=message))
    return _text(data, path.name)


def _text(data: Mapping[str, bytes], key: str) -> str:
    try:
        return data[key].decode()
    except UnicodeDecodeError:  # the text is secret: it must not become part of a message
        message = f"the Secret's {key} is not UTF-8 text"
        raise CredentialsUnusable(Problem(reason="SecretInvalid", message=message)) from None
