"""The loop that a worker is compared with: consume and produce, nothing else.

It uses the worker's client settings, batches, transactions and garbage collector settings (see process.py of the
worker; these are worth a sixth of this loop's CPU time). It passes on every record and remembers none. Run as a
process: `python -m benchmarks.harness.bare_loop BOOTSTRAP INPUT OUTPUT GROUP RECORDS [PARTITION]`.
"""

import gc
from typing import Final, NamedTuple

import click
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks.harness.testbed import MAX_MESSAGE_BYTES
from dedupe_crds.spec.worker import Tuning
from dedupe_kafka.client_config import consumer_config, producer_config

_INIT_SECONDS: Final = 30.0


@click.command
@click.argument("servers")
@click.argument("source")
@click.argument("target")
@click.argument("group")
@click.argument("records", type=int)
@click.argument("partition", type=int, default=0)
def main(
    *, servers: str, source: str, target: str, group: str, records: int, partition: int
) -> None:
    """Copy the first RECORDS records of a partition from SOURCE to TARGET.

    Offsets are committed for GROUP.
    """
    tuning = Tuning()
    consumer = Consumer(consumer_config(servers, {}, group=group, queue_bytes=tuning.queue_bytes))
    producer = Producer(
        producer_config(
            servers,
            {},
            transactional_id=f"{group}.{partition}",
            queue_bytes=tuning.queue_bytes,
            largest_batch_bytes=MAX_MESSAGE_BYTES,
        )
    )
    producer.init_transactions(_INIT_SECONDS)
    consumer.assign([TopicPartition(source, partition, 0)])
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)
    copied = _Copied(source, target, partition)
    _copy(consumer, producer, copied, records=records, tuning=tuning)
    consumer.close()


class _Copied(NamedTuple):
    """Topics, and the partition of both."""

    source: str
    target: str
    partition: int


def _copy(
    consumer: Consumer,
    producer: Producer,
    copied: _Copied,
    *,
    records: int,
    tuning: Tuning,
) -> None:
    left, in_transaction = records, 0
    wait_seconds = tuning.commit_interval.total_seconds()
    while left:
        batch = consumer.consume(tuning.max_batch_records, wait_seconds)
        if batch and batch[-1].error():  # the end of the partition, which is behind its last record
            batch.pop()
        if not batch:
            continue
        if not in_transaction:
            producer.begin_transaction()
        _produce(producer, copied, batch)
        left -= len(batch)
        in_transaction += len(batch)
        if in_transaction >= tuning.max_transaction_records or not left:
            where = TopicPartition(copied.source, copied.partition, (batch[-1].offset() or 0) + 1)
            producer.send_offsets_to_transaction([where], consumer.consumer_group_metadata())
            producer.commit_transaction()
            in_transaction = 0


def _produce(producer: Producer, copied: _Copied, batch: list[Message]) -> None:
    produce, (_, target, partition) = producer.produce, copied
    for m in batch:
        while True:
            try:
                produce(
                    target, m.value(), m.key(), partition, None, None, m.timestamp()[1], m.headers()
                )
                break
            except BufferError:
                producer.poll(0.01)


if __name__ == "__main__":
    main()
