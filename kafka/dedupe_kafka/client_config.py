"""The configuration of the worker's own clients: what its guarantees and its memory bound ask for."""

from typing import Any, Final

from dedupe_kafka.client import Properties, client_config
from dedupe_kafka.errors import InvalidConfig

_TRANSACTION_TIMEOUT_MS: Final = 60_000
_LARGEST_RECORD_BYTES: Final = (
    1_000_000_000  # librdkafka's own bound: the broker's is the one that decides
)
_BATCH_BYTES: Final = 1_000_000
_QUEUED_RECORDS: Final = 100_000
_BATCH_OVERHEAD_BYTES: Final = 1024


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
    transactional_id: str | None,
    queue_bytes: int,
    largest_batch_bytes: int,
) -> dict[str, Any]:
    """A producer that hands large batches to the broker, transactional if it has a `transactional_id`.

    `largest_batch_bytes` is the output topic's max.message.bytes: batches of several records stay below it, and a
    single record above it is sent all the same, for the broker to refuse by name.

    Raises InvalidConfig if `properties` ask for a transactional producer that is not idempotent. One without
    transactions may be so: then a record that the client sends again may be there twice.
    """
    idempotent = properties.get("enable.idempotence", "true") != "false"
    sending: dict[str, Any] = {"enable.idempotence": idempotent}
    if transactional_id is not None:
        if not idempotent:
            raise InvalidConfig(
                "Kafka properties: enable.idempotence=false is for spec.delivery: AtLeastOnce; remove it"
            )
        sending |= {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
        }
    elif not idempotent:  # order and durability as with it
        sending |= {"acks": "all", "max.in.flight": 1}
    return {
        "compression.type": "lz4",
        "linger.ms": 50,  # a commit flushes at once, so this only fills batches while a transaction goes on
        "batch.size": max(1, min(_BATCH_BYTES, largest_batch_bytes - _BATCH_OVERHEAD_BYTES)),
        **client_config(bootstrap_servers, properties),
        "message.max.bytes": _LARGEST_RECORD_BYTES,
        "queue.buffering.max.messages": _QUEUED_RECORDS,
        "queue.buffering.max.kbytes": max(1024, queue_bytes >> 10),
        **sending,
    }
