"""Command `python -m benchmarks.cases.aborted`: what it costs to read through aborted records.

A topic has a record, a transaction of some GiB that was aborted, and another record. A worker's own reader reads it
from a real broker on loopback, without the client's statistics, with them as often as a worker has them, and 500
times as often. The difference of the last and the first in CPU time is what the statistics cost: that of one run of
each is below the noise. docs/decisions/0026 shows the figures.
"""

import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import click
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # public names

from dedupe_crds.clock import SYSTEM_CLOCK
from dedupe_kafka.client_config import consumer_config
from dedupe_kafka.fetch_progress import STATISTICS_MS, FetchProgress
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_worker.kafka.consumer import PartitionReader

_TOPIC: Final = "raw"
_RECORD_BYTES: Final = 1_000
_BATCH_BYTES: Final = 1 << 14  # the default of Java's producer
_QUEUE_BYTES: Final = 64 << 20
_SECONDS: Final = 300.0
_WORKER_MS: Final = STATISTICS_MS
_OFTEN_MS: Final = 10  # 500 times as often


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the topic: how long it took, and how often statistics came."""

    cpu_seconds: float
    seconds: float
    callbacks: int


class _Counted(FetchProgress):
    """Counts the statistics."""

    callbacks = 0

    def __call__(self, statistics: str) -> None:
        self.callbacks += 1
        super().__call__(statistics)


def _fill(servers: str, size: int) -> int:
    """Write the topic; return its end."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(60)
    plain = Producer({"bootstrap.servers": servers})
    plain.produce(_TOPIC, b"before", b"1", 0)
    plain.flush(_SECONDS)
    value = Random(1).randbytes(_RECORD_BYTES)
    foreign = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": "foreign",
            "transaction.timeout.ms": 900_000,
            "batch.size": _BATCH_BYTES,
        }
    )
    foreign.init_transactions(_SECONDS)
    foreign.begin_transaction()
    records = size // _RECORD_BYTES
    for _ in range(records):
        while True:
            try:
                foreign.produce(_TOPIC, value, None, 0)
                break
            except BufferError:
                foreign.poll(0.1)
    foreign.flush(_SECONDS)
    foreign.abort_transaction(_SECONDS)
    plain.produce(_TOPIC, b"after", b"2", 0)
    plain.flush(_SECONDS)
    return records + 3  # the marker, and both records


def _read(servers: str, end: int, interval_ms: int, fetch_bytes: int) -> Reading:
    """Read the topic to its end, as a worker does; an interval of 0 is without statistics."""
    fetched = _Counted() if interval_ms else _Counted(math.inf)
    config = {
        **consumer_config(servers, {}, group="g", queue_bytes=_QUEUE_BYTES),
        "fetch.max.bytes": fetch_bytes,
        "message.max.bytes": fetch_bytes,
        "fetch.message.max.bytes": fetch_bytes,
        "stats_cb": fetched,
        "statistics.interval.ms": interval_ms,
    }
    reader = PartitionReader(Consumer(config), _TOPIC, 0, SYSTEM_CLOCK, fetched)
    cpu, clock = time.process_time(), time.monotonic()
    reader.seek(0)
    keys = []
    while reader.next_offset < end:
        batch = reader.read(1_000, 0.025)
        reader.check(end)
        keys += [record.key() for record in batch.records]
    found = Reading(time.process_time() - cpu, time.monotonic() - clock, fetched.callbacks)
    reader.close()
    if keys != [b"1", b"2"]:
        raise click.ClickException(f"read {keys}, not the two good records")
    return found


def _median(readings: Sequence[Reading], field: str) -> float:
    return float(statistics.median(getattr(each, field) for each in readings))


@click.command()
@click.option("--gib", default=2.0, show_default=True, help="Size of the aborted records.")
@click.option("--rounds", default=3, show_default=True, help="Readings of each kind, by turns.")
@click.option(
    "--fetch-bytes",
    default=1 << 13,
    show_default=True,
    help="Bytes of one fetch: few, so that it takes longer than a reader without progress has.",
)
def main(gib: float, rounds: int, fetch_bytes: int) -> None:
    """Print a line of JSON for each kind of reading, and the share of the statistics."""
    kinds = {"none": 0, "as a worker": _WORKER_MS, "500 times as often": _OFTEN_MS}
    found: dict[str, list[Reading]] = {kind: [] for kind in kinds}
    with TemporaryDirectory() as directory, EmbeddedBroker(Path(directory) / "broker") as broker:
        servers = broker.bootstrap_servers
        end = _fill(servers, int(gib * (1 << 30)))
        for _ in range(rounds):
            for kind, interval_ms in kinds.items():
                found[kind].append(_read(servers, end, interval_ms, fetch_bytes))
    for kind, readings in found.items():
        figures = {
            field: round(_median(readings, field), 3)
            for field in ("cpu_seconds", "seconds", "callbacks")
        }
        sys.stdout.write(json.dumps({"statistics": kind, "GiB": gib, **figures}) + "\n")
    none, worker, often = found.values()
    base, calls = _median(none, "cpu_seconds"), _median(often, "callbacks")
    each = (_median(often, "cpu_seconds") - base) / calls
    share = each * _median(worker, "callbacks") / base
    line = {"ms CPU each": round(each * 1000, 3), "share of the CPU": f"{share:.2%}"}
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
