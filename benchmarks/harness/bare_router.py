"""The loop that a router is compared with: it copies records, and nothing else.

It uses a router's client settings, batches, transactions and garbage collector settings (see session.py, loop.py and
process.py of the router). Every record goes to the partition of the same number, as it came. Run as a process:
`python -m benchmarks.harness.bare_router BOOTSTRAP INPUT OUTPUT GROUP RECORDS PARTITIONS`.
"""

import gc
from typing import Final

import click
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks.harness.testbed import MAX_MESSAGE_BYTES
from dedupe_crds.spec.worker import Tuning
from dedupe_kafka.client_config import consumer_config, producer_config
from dedupe_router.output import TRANSACTION_SECONDS

_INIT_SECONDS: Final = 30.0
_BATCH_RECORDS: Final = 10_000
_GATHER_SECONDS: Final = 0.01


@click.command
@click.argument("servers")
@click.argument("source")
@click.argument("target")
@click.argument("group")
@click.argument("records", type=int)
@click.argument("partitions", type=int)
def main(
    *, servers: str, source: str, target: str, group: str, records: int, partitions: int
) -> None:
    """Copy RECORDS records, all that SOURCE has, to TARGET.

    Offsets are committed for GROUP.
    """
    queue_bytes = Tuning().queue_bytes
    consumer = Consumer(consumer_config(servers, {}, group=group, queue_bytes=queue_bytes))
    producer = Producer(
        producer_config(
            servers,
            {},
            transactional_id=f"{group}.0",
            queue_bytes=queue_bytes,
            largest_batch_bytes=MAX_MESSAGE_BYTES,
            transaction_seconds=TRANSACTION_SECONDS,
        )
    )
    producer.init_transactions(_INIT_SECONDS)
    consumer.assign([TopicPartition(source, each, 0) for each in range(partitions)])
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)
    left = records
    while left:
        # The end of a partition is reported behind its last record.
        batch = consumer.consume(_BATCH_RECORDS, _GATHER_SECONDS)
        batch = [message for message in batch if message.error() is None]
        if batch:
            _copy(consumer, producer, batch, target)
            left -= len(batch)
    consumer.close()


def _copy(consumer: Consumer, producer: Producer, batch: list[Message], target: str) -> None:
    """Copy a batch in a transaction."""
    producer.begin_transaction()
    produce, partition = producer.produce, 0
    after: dict[int, int] = {}
    for m in batch:
        partition = m.partition() or 0
        after[partition] = m.offset() or 0
        while True:
            try:
                produce(
                    target, m.value(), m.key(), partition, None, None, m.timestamp()[1], m.headers()
                )
                break
            except BufferError:
                producer.poll(0.01)
    source = batch[0].topic() or ""
    offsets = [TopicPartition(source, each, last + 1) for each, last in after.items()]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    producer.commit_transaction()


if __name__ == "__main__":
    main()
