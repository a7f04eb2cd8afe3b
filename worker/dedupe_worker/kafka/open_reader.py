"""Make the reader of one partition, with its consumer."""

from collections.abc import Callable
from typing import Any

from dedupe_crds.clock import Clock
from dedupe_kafka.client import made
from dedupe_kafka.fetch_progress import STATISTICS_MS, FetchProgress
from dedupe_worker.kafka.consumer import PartitionReader


def open_reader(
    make_consumer: Callable[[dict[str, Any]], Any],
    config: dict[str, Any],
    topic: str,
    partition: int,
    clock: Clock,
) -> PartitionReader:
    """Make a consumer and its reader. Raises InvalidConfig."""
    fetched = FetchProgress()
    watched = {**config, "stats_cb": fetched, "statistics.interval.ms": STATISTICS_MS}
    return PartitionReader(
        made(make_consumer, watched),
        topic,
        partition,
        clock,
        fetched,
        make_impatient=lambda: made(
            make_consumer, {**config, "isolation.level": "read_uncommitted"}
        ),
    )
