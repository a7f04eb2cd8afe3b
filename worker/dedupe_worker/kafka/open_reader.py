"""Make readers of partitions, with their consumers."""

from collections.abc import Callable
from typing import Any

from dedupe_crds.clock import Clock
from dedupe_kafka.client import made
from dedupe_kafka.fetch_progress import STATISTICS_MS, FetchProgress
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.output_reader import Hidden, OutputReader


def open_reader(
    make_consumer: Callable[[dict[str, Any]], Any],
    config: dict[str, Any],
    topic: str,
    partition: int,
    clock: Clock,
) -> PartitionReader:
    """Make a consumer and its reader. Raises InvalidConfig."""
    fetched = FetchProgress()
    return PartitionReader(
        made(make_consumer, _watched(config, fetched)),
        topic,
        partition,
        clock,
        fetched,
        make_impatient=lambda: made(
            make_consumer, {**config, "isolation.level": "read_uncommitted"}
        ),
    )


def open_output_reader(
    make_consumer: Callable[[dict[str, Any]], Any],
    config: dict[str, Any],
    topic: str,
    clock: Clock,
    hidden: Hidden,
) -> OutputReader:
    """Make a consumer of several partitions and its reader. Raises InvalidConfig."""
    fetched = FetchProgress()
    return OutputReader(
        made(make_consumer, _watched(config, fetched)), topic, clock, hidden, fetched
    )


def _watched(config: dict[str, Any], fetched: FetchProgress) -> dict[str, Any]:
    return {**config, "stats_cb": fetched, "statistics.interval.ms": STATISTICS_MS}
