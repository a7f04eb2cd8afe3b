"""Make the reader of one partition, with its consumer."""

from collections.abc import Callable
from typing import Any, Final

from dedupe_crds.clock import Clock
from dedupe_kafka.client import made
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.fetch_progress import FetchProgress

# They alone show progress through aborted records, which the client drops.
_STATISTICS_MS: Final = 5_000


def open_reader(
    make_consumer: Callable[[dict[str, Any]], Any],
    config: dict[str, Any],
    topic: str,
    partition: int,
    clock: Clock,
) -> PartitionReader:
    """Make a consumer and its reader. Raises InvalidConfig."""
    fetched = FetchProgress(topic, partition)
    watched = {**config, "stats_cb": fetched, "statistics.interval.ms": _STATISTICS_MS}
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
