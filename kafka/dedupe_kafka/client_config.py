"""The configuration of the worker's consumers and producers.

The worker's `ComponentFactory` and its bootstrap call it. Invariant: it keeps the worker's guarantees and its bound on
memory, whatever the user's properties are.
"""

from typing import Any, Final

from dedupe_kafka.client import Properties, client_config, reading_config
from dedupe_kafka.errors import InvalidConfig

TRANSACTION_SECONDS: Final = 60.0
"""The age at which Kafka aborts a transaction, and refuses its producer from then on."""

_LARGEST_RECORD_BYTES: Final = 1_000_000_000  # librdkafka's own limit; the broker's limit decides
_LARGEST_ANSWER_BYTES: Final = 2_000_000_000
_BATCH_BYTES: Final = 1_000_000
_QUEUED_RECORDS: Final = 100_000
_BATCH_OVERHEAD_BYTES: Final = 1024


def consumer_config(
    bootstrap_servers: str, properties: Properties, *, group: str, queue_bytes: int
) -> dict[str, Any]:
    """Return the configuration of a consumer of committed records.

    `queue_bytes` bounds its memory, however large the backlog is.
    """
    return {
        # The default pauses fetching for a second after the queue was full.
        "fetch.queue.backoff.ms": 5,
        # The client bounds its queues by the size of keys and values. Each record takes about 400 bytes more, so small
        # records must be bounded by number.
        "queued.min.messages": _QUEUED_RECORDS,
        # A broker sends a batch whole, however large it is, and the client refuses a larger answer without end.
        "receive.message.max.bytes": _LARGEST_ANSWER_BYTES,
        **reading_config(bootstrap_servers, properties),
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
    transaction_seconds: float = TRANSACTION_SECONDS,
) -> dict[str, Any]:
    """Return a producer's configuration, transactional if given a `transactional_id`.

    `largest_batch_bytes` is the output topic's max.message.bytes. Batches of several records stay below it; a single
    record above it is sent nevertheless, so that the broker refuses it with a precise error.

    Raises InvalidConfig if `properties` turn off idempotence for a transactional producer. Without transactions this is
    allowed; then a record that the client resends may be written twice.
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
            "transaction.timeout.ms": int(transaction_seconds * 1000),
        }
    elif not idempotent:  # the same order and durability as an idempotent producer
        sending |= {"acks": "all", "max.in.flight": 1}
    return {
        "compression.type": "lz4",
        "linger.ms": 50,  # a commit flushes at once; this only fills batches during a transaction
        # A broker verifies a transaction at its first records and at its offset, and refuses one of both while it does
        # so for the other. The default, 100 ms, was the longest part of such a commit. It doubles with each retry.
        "retry.backoff.ms": 10,
        "batch.size": max(1, min(_BATCH_BYTES, largest_batch_bytes - _BATCH_OVERHEAD_BYTES)),
        **client_config(bootstrap_servers, properties),
        "message.max.bytes": _LARGEST_RECORD_BYTES,
        "queue.buffering.max.messages": _QUEUED_RECORDS,
        "queue.buffering.max.kbytes": max(1024, queue_bytes >> 10),
        **sending,
    }
