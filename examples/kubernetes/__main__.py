"""Sends real flights with duplicates to the topic of flights.yaml.

Run it as `python -m examples.kubernetes`.
"""

import sys

import click
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AdminClient,
    NewTopic,
)
from rich.progress import Progress

from dedupe_crds.command_line import BootstrapServersType
from examples.flights import data
from examples.flights.producer import FlakyProducer, NotSent, plan

_TOPIC = "flights"
_SECONDS = 30.0
_SEED = 2013


@click.command(context_settings={"show_default": True})
@click.option(
    "--bootstrap-servers",
    type=BootstrapServersType(),
    envvar="KAFKA_BOOTSTRAP",
    required=True,
    help="Kafka brokers, HOST:PORT.",
)
@click.option("--rows", type=click.IntRange(1_000, data.ROWS), default=50_000)
@click.option(
    "--partitions",
    type=click.IntRange(1, 64),
    default=2,
    help="Partitions of the topic, if it is created.",
)
@click.option("--duplicates", "repeats", type=click.FloatRange(0, 0.5), default=0.05)
def main(bootstrap_servers: str, rows: int, partitions: int, repeats: float) -> None:
    """Send flights with duplicates to the topic `flights`; create the topic if needed."""
    try:
        _create(bootstrap_servers, partitions)
        messages = list(data.messages(rows, _SEED))
        sends = plan(rows, repeats, _SEED)
        producer = FlakyProducer(bootstrap_servers, _TOPIC)
        with Progress() as progress:
            task = progress.add_task("sending flights", total=len(sends))
            producer.send(messages, sends, lambda: progress.update(task, completed=producer.sent))
    except (KafkaException, NotSent, data.FlightsMissing) as error:
        sys.exit(f"Error: {error}")
    click.echo(
        f"Sent {len(sends):,} records: {rows:,} flights and {len(sends) - rows:,} duplicates."
    )


def _create(bootstrap_servers: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    topic = NewTopic(_TOPIC, partitions, config={"retention.ms": "-1"})
    try:
        admin.create_topics([topic])[_TOPIC].result(_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


if __name__ == "__main__":
    main()
