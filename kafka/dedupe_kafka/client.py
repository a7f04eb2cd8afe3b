"""Configuration of Kafka clients, and translation of librdkafka's errors.

Every part creates its clients here, and calls them within `calling`; tests/unit/kafka/test_calls.py checks that.
Invariant: whatever the client library raises leaves as a `StreamError`, and the values of client properties are never
logged.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from dedupe_crds.bootstrap_servers import check_bootstrap_servers
from dedupe_kafka.errors import (
    BrokerUnavailable,
    ClientFailed,
    Fenced,
    InvalidConfig,
    NotAuthorized,
    RecordRefused,
    RecordTooLarge,
    Stopped,
    StreamError,
    TopicMissing,
    TopicRefused,
    TransactionTimeoutRefused,
)

Properties = Mapping[str, str]

# The worker's guarantees depend on these; a properties file that sets one of them is refused.
RESERVED: Final = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "delivery.report.only.error",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "metadata.broker.list",
        "request.required.acks",
        "transactional.id",
    }
)

# Error codes, their error class, and the remedy. Any other error maps to BrokerUnavailable.
_NAMED: Final[tuple[tuple[frozenset[int], type[StreamError], str], ...]] = (
    (
        frozenset(
            {
                KafkaError._FENCED,  # noqa: SLF001 (confluent-kafka's public names of local errors begin with _)
                KafkaError.INVALID_PRODUCER_EPOCH,
                KafkaError.PRODUCER_FENCED,
            }
        ),
        Fenced,
        "another producer has this transactional.id, or the transaction outlived its time-out",
    ),
    (
        frozenset(
            {
                KafkaError._AUTHENTICATION,  # noqa: SLF001
                KafkaError._SSL,  # noqa: SLF001
                KafkaError.CLUSTER_AUTHORIZATION_FAILED,
                KafkaError.GROUP_AUTHORIZATION_FAILED,
                KafkaError.SASL_AUTHENTICATION_FAILED,
                KafkaError.TOPIC_AUTHORIZATION_FAILED,
                KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            }
        ),
        NotAuthorized,
        "check the Kafka credentials and their ACLs",
    ),
    (
        frozenset(
            {
                KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
                KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
                KafkaError.UNKNOWN_TOPIC_ID,
                KafkaError.UNKNOWN_TOPIC_OR_PART,
            }
        ),
        TopicMissing,
        "create the topic; a worker that waits for it continues automatically",
    ),
    (
        frozenset(
            {
                KafkaError.INVALID_CONFIG,
                KafkaError.INVALID_PARTITIONS,
                KafkaError.INVALID_REPLICATION_FACTOR,
                KafkaError.POLICY_VIOLATION,
            }
        ),
        TopicRefused,
        "create the topic yourself, as the cluster's policies require",
    ),
    (
        frozenset({KafkaError.TOPIC_EXCEPTION}),
        TopicRefused,
        "choose another name: Kafka has no two topics whose names differ only in '.' and '_'",
    ),
    (
        frozenset({KafkaError.INVALID_TRANSACTION_TIMEOUT}),
        TransactionTimeoutRefused,
        "raise transaction.max.timeout.ms of the brokers to its default of 15 minutes",
    ),
    (
        frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}),
        RecordTooLarge,
        "raise max.message.bytes of the output topic, or of the side topic",
    ),
    (
        frozenset({KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}),
        RecordRefused,
        "the output topic's configuration does not allow the record",
    ),
)

logger = logging.getLogger("librdkafka")
# A command that configures no logging prints none of its lines. What they tell is tried again, and what stays wrong
# becomes an error with a name.
logger.addHandler(logging.NullHandler())

Client = TypeVar("Client")


_SECRETS: Final = ("password", "secret")


def read_properties(path: Path | None, *, reserved: frozenset[str] = RESERVED) -> dict[str, str]:
    """Read a librdkafka properties file; no path means no properties.

    Raises InvalidConfig for a file that cannot be read, or that `parse_properties` refuses.
    """
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfig(f"properties file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(
            f"properties file {path}: byte {error.start} is not UTF-8"
        ) from None  # the error holds the whole text, secrets and all
    return parse_properties(text, str(path), reserved=reserved)


def parse_properties(
    text: str, source: str, *, reserved: frozenset[str] = RESERVED
) -> dict[str, str]:
    """Read librdkafka properties: `key=value` lines and `#` comments.

    Blanks around keys and values do not count, but those at the end of a password or secret do. Nor does a byte order
    mark, with which some editors begin a file.

    `source` names their origin in messages. Raises InvalidConfig for any other line, and for a `reserved` property: by
    default those that the worker sets itself.
    """
    properties = {}
    # Not `splitlines`, which also ends a line at characters that a password may have.
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        name = key.strip()
        if not equals or not name:
            raise InvalidConfig(f"{source}, line {number}: not of the form key=value")
        is_secret = any(word in name for word in _SECRETS)
        properties[name] = value.lstrip(" \t") if is_secret else value.strip()
    if refused := sorted(reserved & properties.keys()):
        raise InvalidConfig(
            f"{source} sets {', '.join(refused)}, which the worker sets itself to keep its guarantees; remove it"
        )
    return properties


def check_servers(bootstrap_servers: str) -> None:
    """Raise InvalidConfig for bootstrap servers of another form than host:port."""
    try:
        check_bootstrap_servers(bootstrap_servers)
    except ValueError as error:
        raise InvalidConfig(f"bootstrap servers: {error}") from None


def client_config(bootstrap_servers: str, properties: Properties) -> dict[str, Any]:
    """Return the configuration that all clients share.

    Raises InvalidConfig for bootstrap servers of another form than host:port.
    """
    check_servers(bootstrap_servers)
    return {
        "client.id": "dedupestream",
        "socket.keepalive.enable": True,
        "log.connection.close": False,
        # With the default, a client that has lost all brokers forgets the transaction coordinator and does not find
        # it again (seen with librdkafka 2.16.1: the next commit hangs, though the broker is back).
        "metadata.recovery.strategy": "none",
        **properties,
        "bootstrap.servers": bootstrap_servers,
        "logger": logger,
    }


def reading_config(bootstrap_servers: str, properties: Properties) -> dict[str, Any]:
    """Return what all consumers share, whatever the `properties` say.

    The checksum of each batch is compared, as Kafka's own consumer does and librdkafka by default does not: else a
    byte that a disk has flipped is passed on as if a producer had written it.

    Raises InvalidConfig as `client_config` does.
    """
    return {**client_config(bootstrap_servers, properties), "check.crcs": True}


def made(make: Callable[[dict[str, Any]], Client], config: dict[str, Any]) -> Client:
    """Create a client. Raises InvalidConfig for a property unknown to librdkafka."""
    with calling("creating a client", _refused_property):
        return make(config)


def _refused_property(error: KafkaException, _action: str) -> StreamError:
    return InvalidConfig(f"Kafka properties: {error.args[0].str()}")


def kafka_error(error: KafkaError | KafkaException, action: str) -> StreamError:
    """Translate an error of librdkafka to the `StreamError` that names the remedy."""
    cause: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    named: StreamError = BrokerUnavailable(text := f"{action}: {cause.str()}")
    for codes, name, advice in _NAMED:
        if cause.code() in codes:
            named = name(f"{text}; {advice}")
    named.kafka_code = cause.code()
    return named


Named = Callable[[KafkaException, str], StreamError]


@contextmanager
def calling(action: str, named: Named = kafka_error) -> Iterator[None]:
    """Name what calls of the client library raise in this block.

    `named` translates a KafkaException. BufferError, for a full queue, is the caller's. Anything else, such as the
    SystemError of a broken callback, is a defect of the library or of its use: ClientFailed. What callbacks of this
    project raise, a StreamError or Stopped, is passed on.
    """
    try:
        yield
    except KafkaException as error:
        raise named(error, action) from error
    except (StreamError, Stopped, BufferError):
        raise
    except Exception as error:
        raise ClientFailed(
            f"{action}: the client library failed with {type(error).__name__}: {error}. No record is skipped; report "
            "this with the log"
        ) from error
