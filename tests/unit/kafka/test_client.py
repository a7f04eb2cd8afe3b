"""Kafka's properties and errors at our edge."""

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from dedupe_kafka.client import (
    client_config,
    kafka_error,
    made,
    parse_properties,
    read_properties,
)
from dedupe_kafka.errors import (
    BrokerUnavailable,
    Fenced,
    InvalidConfig,
    NotAuthorized,
    RecordTooLarge,
    StreamError,
    TopicMissing,
    TopicRefused,
    TransactionTimeoutRefused,
)

SECRET = "hunter2-is-the-password"  # noqa: S105 # nobody's

GUARANTEES = [
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "group.id",
    "isolation.level",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "metadata.broker.list",
    "request.required.acks",
    "transactional.id",
]


@pytest.fixture
def properties_file(tmp_path: Path) -> Path:
    return tmp_path / "kafka.properties"


def test_lines_are_read_as_librdkafka_users_write_them(properties_file: Path) -> None:
    properties_file.write_text(
        "# comment\n\n  security.protocol = SASL_SSL \nsasl.password=a=b#c\n\t# another\nssl.ca.pem=\n"
    )
    assert read_properties(properties_file) == {
        "security.protocol": "SASL_SSL",
        "sasl.password": "a=b#c",
        "ssl.ca.pem": "",
    }


def test_without_a_file_there_are_no_properties() -> None:
    assert read_properties(None) == {}


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]+\.[a-z.]+", fullmatch=True),
        st.text("abcXYZ019=#/+ ", max_size=20).map(str.strip),
    )
)
def test_any_properties_survive_writing_and_reading(
    tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("any") / "kafka.properties"
    path.write_text("\n".join(f"{key}={value}" for key, value in properties.items()))
    assert read_properties(path) == properties


@pytest.mark.parametrize("key", GUARANTEES)
def test_a_property_that_the_guarantees_rest_on_is_refused_by_name(
    properties_file: Path, key: str
) -> None:
    properties_file.write_text(f"sasl.password={SECRET}\n{key}={SECRET}\n")
    with pytest.raises(InvalidConfig, match=key) as refusal:
        read_properties(properties_file)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    "content",
    [
        f"sasl.username=me\n{SECRET}\n".encode(),
        f"={SECRET}\n".encode(),
        f"sasl.password={SECRET}\xff".encode("latin-1"),
    ],
    ids=["no equals sign", "no key", "not UTF-8"],
)
def test_what_is_no_properties_file_is_refused_and_not_quoted(
    properties_file: Path, content: bytes
) -> None:
    properties_file.write_bytes(content)
    with pytest.raises(InvalidConfig, match=str(properties_file)) as refusal:
        read_properties(properties_file)
    assert SECRET not in str(refusal.value)


def test_properties_of_no_file_are_read_alike_and_refused_by_where_they_come_from() -> None:
    source = "Secret shop/orders-kafka, key client.properties"
    assert parse_properties("a.b=c\n", source) == {"a.b": "c"}
    with pytest.raises(InvalidConfig, match=f"{source}, line 2"):
        parse_properties(f"a.b=c\n{SECRET}", source)
    with pytest.raises(InvalidConfig, match=f"{source} sets acks"):
        parse_properties("acks=1", source)


def test_a_property_that_is_not_librdkafkas_is_refused_by_name() -> None:
    with pytest.raises(InvalidConfig, match=r"no\.such"):
        made(AdminClient, client_config("localhost:1", {"no.such": SECRET}))


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"absent\.properties: No such file"):
        read_properties(tmp_path / "absent.properties")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("_FENCED", Fenced),
        ("PRODUCER_FENCED", Fenced),
        ("INVALID_PRODUCER_EPOCH", Fenced),
        ("_AUTHENTICATION", NotAuthorized),
        ("TOPIC_AUTHORIZATION_FAILED", NotAuthorized),
        ("GROUP_AUTHORIZATION_FAILED", NotAuthorized),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", NotAuthorized),
        ("UNKNOWN_TOPIC_OR_PART", TopicMissing),
        ("_UNKNOWN_PARTITION", TopicMissing),
        ("_UNKNOWN_TOPIC", TopicMissing),
        ("POLICY_VIOLATION", TopicRefused),
        ("TOPIC_EXCEPTION", TopicRefused),
        ("INVALID_TRANSACTION_TIMEOUT", TransactionTimeoutRefused),
        ("INVALID_REPLICATION_FACTOR", TopicRefused),
        ("CLUSTER_AUTHORIZATION_FAILED", NotAuthorized),
        ("MSG_SIZE_TOO_LARGE", RecordTooLarge),
        ("RECORD_LIST_TOO_LARGE", RecordTooLarge),
        ("_TRANSPORT", BrokerUnavailable),
        ("_ALL_BROKERS_DOWN", BrokerUnavailable),
        ("_TIMED_OUT", BrokerUnavailable),
        ("COORDINATOR_NOT_AVAILABLE", BrokerUnavailable),
        ("REQUEST_TIMED_OUT", BrokerUnavailable),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True], ids=["error", "exception"])
def test_an_error_of_kafka_has_the_name_of_what_can_be_done(
    code: str, name: type[StreamError], *, wrapped: bool
) -> None:
    error = KafkaError(getattr(KafkaError, code), "what the broker said")
    named = kafka_error(KafkaException(error) if wrapped else error, "reading raw/3")
    assert type(named) is name
    assert "reading raw/3: what the broker said" in str(named)


@pytest.mark.parametrize(
    "code",
    sorted(
        code
        for each in dir(KafkaError)
        if isinstance(code := getattr(KafkaError, each), int) and code != 0
    ),
)
def test_every_error_of_kafka_has_a_name(code: int) -> None:
    assert type(kafka_error(KafkaError(code), "reading raw/3")) is not StreamError


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", ""])
@pytest.mark.parametrize(
    "password",
    ["trailing  ", "tab\t", "next\x85line", "line\u2028separator", "form\x0cfeed", "a b = c #d"],
)
def test_a_password_is_taken_to_the_end_of_its_line(password: str, end: str) -> None:
    text = f"security.protocol = SASL_SSL {end or chr(10)} sasl.password = {password}{end}"
    assert parse_properties(text, "test") == {
        "security.protocol": "SASL_SSL",
        "sasl.password": password,
    }


_SAYS = "from dedupe_kafka.client import logger; logger.warning('thrd:main: retrying')"


@pytest.mark.parametrize(
    ("before", "printed"), [("", ""), ("import logging; logging.basicConfig(); ", "retrying")]
)
def test_only_a_process_that_configures_logging_prints_lines_of_the_library(
    before: str, printed: str
) -> None:
    """A command of the terminal does not; workers and routers do."""
    done = subprocess.run(
        [sys.executable, "-c", before + _SAYS], capture_output=True, text=True, check=True
    )
    assert printed in done.stderr
    assert bool(done.stderr) is bool(printed)


def test_a_byte_order_mark_is_no_part_of_the_first_property() -> None:
    text = "\ufeffsecurity.protocol=SASL_SSL\r\nsasl.username=worker\r\n"
    assert parse_properties(text, "client.properties") == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "worker",
    }
