"""What of a user's Secret reaches a Kafka client of the operator's, and what never does."""

from base64 import b64encode

import pytest

from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import InvalidConfig
from dedupe_operator.credentials import CredentialsUnusable, client_properties, secret_data
from dedupe_operator.kubernetes.names import Object
from tests.unit.operator.objects import stream

SECURED = stream({"spec.kafka.configSecretRef": {"name": "orders-kafka"}})
MARK = "hunter2"
MOUNT = "/etc/dedupestream/kafka"


def secret(**data: bytes) -> Object:
    return {"data": {key: b64encode(value).decode() for key, value in data.items()}}


def given(*lines: str, **files: bytes) -> dict[str, bytes]:
    return {"client.properties": "\n".join(lines).encode(), **files}


def refusal(data: dict[str, bytes]) -> CredentialsUnusable:
    with pytest.raises(CredentialsUnusable) as refused:
        client_properties(data)
    assert MARK not in f"{refused.value!r} {refused.value} {refused.value.problem}"
    return refused.value


def test_what_opens_a_connection_reaches_the_client() -> None:
    lines = [
        "security.protocol=SASL_SSL",
        "sasl.mechanisms=SCRAM-SHA-512",
        "sasl.username=me",
        f"sasl.password={MARK}",
        "ssl.endpoint.identification.algorithm=https",
    ]
    assert client_properties(given(*lines)) == dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize(
    "line",
    [
        "plugin.library.paths=/tmp/evil.so",
        "sasl.kerberos.kinit.cmd=touch /tmp/owned",
        "sasl.kerberos.keytab=/etc/krb5.keytab",
        "sasl.oauthbearer.config=anything",
        "sasl.oauthbearer.assertion.private.key.file=/etc/passwd",
        "ssl.keystore.location=/etc/passwd",
        "ssl.crl.location=/etc/passwd",
        "ssl.engine.location=/tmp/evil.so",
        "ssl.providers=evil",
        "https.ca.location=/etc/passwd",
        "debug=all",
        "log_level=7",
        "client.id=someone",
        "socket.timeout.ms=999999",
        "stats_cb=x",
        "SASL.USERNAME=me",
    ],
)
def test_what_could_run_code_read_files_or_fill_logs_never_reaches_the_client(line: str) -> None:
    assert client_properties(given(line, "sasl.username=me")) == {"sasl.username": "me"}


@pytest.mark.parametrize(
    "name", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"]
)
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        f"{MOUNT}/absent.crt",
        f"{MOUNT}/../../passwd",
        f"{MOUNT}/../kafka/ca.crt",
        f"{MOUNT}/sub/ca.crt",
        "ca.crt",
        MOUNT,
        "",
        "probe",
    ],
)
def test_a_file_that_is_not_in_the_secret_is_refused(name: str, path: str) -> None:
    data = given(f"{name}={path}", **{"ca.crt": b"certificate"})
    refused = refusal(data)
    assert refused.problem.reason == "SecretInvalid"
    assert name in refused.problem.message
    assert f"{MOUNT}/<key>" in refused.problem.message


@pytest.mark.parametrize("name", ["ca", "certificate", "key"])
def test_a_file_of_the_secret_reaches_the_client_as_text(name: str) -> None:
    data = given(f"ssl.{name}.location={MOUNT}/it.pem", **{"it.pem": b"first\nsecond\n"})
    assert client_properties(data) == {f"ssl.{name}.pem": "first\nsecond\n"}


def test_a_text_and_a_file_are_both_used_as_the_client_does() -> None:
    lines = [f"ssl.ca.location={MOUNT}/ca.crt", "ssl.ca.pem=text"]
    assert client_properties(given(*lines, **{"ca.crt": b"file"})) == {"ssl.ca.pem": "text\nfile"}


def test_a_file_that_is_no_text_is_refused() -> None:
    lines = [f"ssl.ca.location={MOUNT}/ca.der"]
    refused = refusal(given(*lines, **{"ca.der": b"\xff" + MARK.encode()}))
    assert (refused.problem.reason, refused.__cause__) == ("SecretInvalid", None)
    assert "ca.der is not UTF-8 text" in refused.problem.message


def test_without_properties_there_are_none() -> None:
    assert client_properties({}) == {}


@pytest.mark.parametrize(
    "text",
    [
        f"sasl.password {MARK}".encode(),
        f"={MARK}".encode(),
        f"group.id={MARK}".encode(),
        f"sasl.password={MARK}".encode("utf-16"),
        b"\xff" + MARK.encode(),
    ],
)
def test_a_text_that_cant_be_read_is_refused_without_a_word_of_it(text: bytes) -> None:
    refused = refusal({"client.properties": text})
    assert refused.problem.reason == "SecretInvalid"
    assert refused.__cause__ is None


@pytest.mark.parametrize(
    "line",
    [
        f"ssl.key.pem={MARK}",
        f"ssl.certificate.pem={MARK}",
        f"sasl.password={MARK}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=NONE",
        f"sasl.password={MARK}\nsecurity.protocol=nonsense",
    ],
)
def test_librdkafka_itself_tells_no_secret_when_it_refuses_a_property(line: str) -> None:
    properties = client_properties(given("security.protocol=SSL", *line.split("\n")))
    with pytest.raises(InvalidConfig) as refused:
        Cluster("127.0.0.1:1", properties)
    assert MARK not in str(refused.value)


def test_a_stream_that_names_no_secret_has_none() -> None:
    assert secret_data(stream(), None) == {}


def test_a_secret_is_read_as_it_is() -> None:
    found = secret_data(SECURED, secret(**{"client.properties": b"a=b", "ca.crt": b"c"}))
    assert found == {"client.properties": b"a=b", "ca.crt": b"c"}


@pytest.mark.parametrize(
    ("found", "reason", "part"),
    [
        (None, "SecretMissing", "create it with the key client.properties"),
        ({}, "SecretIncomplete", "has no key client.properties"),
        (secret(other=MARK.encode()), "SecretIncomplete", "has no key client.properties"),
    ],
)
def test_a_secret_that_will_not_do_is_told_by_its_name(
    found: Object | None, reason: str, part: str
) -> None:
    with pytest.raises(CredentialsUnusable, match="Secret shop/orders-kafka") as refused:
        secret_data(SECURED, found)
    assert refused.value.problem.reason == reason
    assert part in refused.value.problem.message
    assert MARK not in refused.value.problem.message
