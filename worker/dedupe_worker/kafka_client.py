"""Kafka's clients: their configuration, and their errors by name. Everything librdkafka raises is translated here."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from dedupe_worker.errors import (
    BrokerUnavailable,
    Fenced,
    InvalidConfig,
    NotAuthorized,
    RecordRefused,
    RecordTooLarge,
    TopicMissing,
    WorkerError,
)

Properties = Mapping[str, str]

# What the worker's guarantees rest on; a properties file that sets one of them is refused.
_OURS: Final = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "delivery.report.only.error",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
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

_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 (confluent-kafka's public names of local errors begin with _)
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    }
)
_NOT_AUTHORIZED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_MISSING: Final = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
_REFUSED: Final = frozenset({KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP})
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})

_TRANSACTION_TIMEOUT_MS: Final = 60_000
_LARGEST_RECORD_BYTES: Final = (
    1_000_000_000  # librdkafka's own bound: the broker's is the one that decides
)
_BATCH_BYTES: Final = 1_000_000
_QUEUED_RECORDS: Final = 100_000
_BATCH_OVERHEAD_BYTES: Final = 1024

logger = logging.getLogger("librdkafka")


def read_properties(path: Path | None) -> dict[str, str]:
    """Read a librdkafka properties file: `key=value` lines, `#` comments. Its values are never logged.

    Raises InvalidConfig for a line that is neither, a file that can't be read, and a property that the worker
    sets itself.
    """
    if path is None:
        return {}
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise InvalidConfig(f"Kafka properties file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(
            f"Kafka properties file {path}: byte {error.start} is not UTF-8"
        ) from None  # the error holds the whole text, secrets and all
    properties = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise InvalidConfig(f"{path}, line {number}: not of the form key=value")
        properties[key.strip()] = value.strip()
    if refused := sorted(_OURS & properties.keys()):
        raise InvalidConfig(
            f"{path} sets {', '.join(refused)}, which the worker sets itself to keep its guarantees; remove it"
        )
    return properties


def client_config(bootstrap_servers: str, properties: Properties) -> dict[str, Any]:
    """What every client of the worker has."""
    return {
        "client.id": "dedupestream",
        "socket.keepalive.enable": True,
        "log.connection.close": False,
        # With the default, a client that has lost all brokers forgets the transaction coordinator and does not find
        # it again (seen with librdkafka 2.16.1: the next commit hangs, though the broker is back). Issue 5511.
        "metadata.recovery.strategy": "none",
        **properties,
        "bootstrap.servers": bootstrap_servers,
        "logger": logger,
    }


def consumer_config(
    bootstrap_servers: str, properties: Properties, *, group: str, queue_bytes: int
) -> dict[str, Any]:
    """A consumer of committed records whose memory is bound by `queue_bytes`, not by the backlog."""
    return {
        # Fast again after the queue was full: the default is a second of standing still.
        "fetch.queue.backoff.ms": 5,
        # The client bounds its queues by what records carry; each takes some 400 bytes more, so that small
        # ones have to be bounded by number.
        "queued.min.messages": _QUEUED_RECORDS,
        **client_config(bootstrap_servers, properties),
        "queued.max.messages.kbytes": max(1024, queue_bytes >> 10),
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    }


def producer_config(
    bootstrap_servers: str,
    properties: Properties,
    *,
    transactional_id: str,
    queue_bytes: int,
    largest_batch_bytes: int,
) -> dict[str, Any]:
    """A transactional producer that hands large batches to the broker.

    `largest_batch_bytes` is the output topic's max.message.bytes: batches of several records stay below it, and a
    single record above it is sent all the same, for the broker to refuse by name.
    """
    return {
        "compression.type": "lz4",
        "linger.ms": 50,  # a commit flushes at once, so this only fills batches while a transaction goes on
        "batch.size": max(1, min(_BATCH_BYTES, largest_batch_bytes - _BATCH_OVERHEAD_BYTES)),
        **client_config(bootstrap_servers, properties),
        "message.max.bytes": _LARGEST_RECORD_BYTES,
        "queue.buffering.max.messages": _QUEUED_RECORDS,
        "queue.buffering.max.kbytes": max(1024, queue_bytes >> 10),
        "transactional.id": transactional_id,
        "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
    }


def kafka_error(error: KafkaError | KafkaException, action: str) -> WorkerError:
    """Name an error of librdkafka's by what a user can do about it."""
    cause: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    text = f"{action}: {cause.str()}"
    code = cause.code()
    if code in _FENCED:
        return Fenced(f"{text}; another worker of this partition has taken over, this one ends")
    if code in _NOT_AUTHORIZED:
        return NotAuthorized(f"{text}; check the Kafka credentials and their rights")
    if code in _MISSING:
        return TopicMissing(f"{text}; create the topic, the worker goes on by itself")
    if code in _TOO_LARGE:
        return RecordTooLarge(f"{text}; raise max.message.bytes of the output topic")
    if code in _REFUSED:
        return RecordRefused(f"{text}; the output topic's configuration does not take the record")
    return BrokerUnavailable(text)
