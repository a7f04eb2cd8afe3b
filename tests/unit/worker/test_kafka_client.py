"""Kafka's properties and errors at the worker's edge."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.stream import DedupeStream
from dedupe_worker.config import WorkerConfig
from dedupe_worker.errors import (
    BrokerUnavailable,
    Fenced,
    InvalidConfig,
    NotAuthorized,
    RecordTooLarge,
    TopicMissing,
    WorkerError,
)
from dedupe_worker.identity import StateDirectory
from dedupe_worker.kafka_client import (
    consumer_config,
    kafka_error,
    producer_config,
    read_properties,
)
from tests.unit.crds.manifests import MINIMAL

SECRET = "hunter2-is-the-password"  # noqa: S105 # nobody's

GUARANTEES = [
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
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


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"absent\.properties: No such file"):
        read_properties(tmp_path / "absent.properties")


def test_a_configuration_does_not_show_its_secrets(tmp_path: Path) -> None:
    config = WorkerConfig(
        stream=DedupeStream.model_validate(MINIMAL),
        partition=0,
        state=StateDirectory(tmp_path),
        properties={"sasl.password": SECRET},
    )
    assert SECRET not in repr(config) + str(config)


def test_properties_can_tune_a_client_and_not_undo_what_it_needs() -> None:
    properties = {"linger.ms": "7", "client.id": "me", "queued.max.messages.kbytes": "9"}
    consumer = consumer_config("here:1", properties, group="g", queue_bytes=8 << 20)
    producer = producer_config(
        "here:1",
        properties,
        transactional_id="t",
        queue_bytes=8 << 20,
        largest_batch_bytes=1 << 20,
    )
    assert consumer["client.id"] == producer["client.id"] == "me"
    assert producer["linger.ms"] == "7"
    assert consumer["queued.max.messages.kbytes"] == 8192
    assert consumer["isolation.level"] == "read_committed"


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
    code: str, name: type[WorkerError], *, wrapped: bool
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
    assert type(kafka_error(KafkaError(code), "reading raw/3")) is not WorkerError
