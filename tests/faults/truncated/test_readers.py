"""A topic loses its tail under those who read it on."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from dedupe_filters.reader import FilteredReader
from dedupe_kafka.errors import RecordsLost
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_pipeline.datasource.options import read_options
from dedupe_pipeline.datasource.stream import StreamReader
from tests.support.checker.record import Message
from tests.support.processes.brokers import losing
from tests.support.traffic.traffic import produce

KEPT, LOST, NEW = 60, 40, 20
LOSS = f"read to offset {KEPT + LOST} and ends at {KEPT + NEW}"


def send(broker: EmbeddedBroker, topic: str, count: int) -> None:
    produce(broker.bootstrap_servers, topic, [Message(0, None, b"%d" % n) for n in range(count)])


def test_who_has_read_what_is_lost_is_told(
    broker: EmbeddedBroker, topics: Callable[..., str], tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, topics("clean")
    options = {"bootstrapServers": servers, "topic": topic}
    query = StreamReader(read_options(options))
    ahead = StreamReader(read_options({**options, "startingOffsets": '{"0": 1000}'}))
    send(broker, topic, KEPT)
    with (
        losing(broker, topic, tmp_path) as lose,
        FilteredReader(servers, topic, values=None, follow=True, poll_seconds=0.1) as reader,
    ):
        send(broker, topic, LOST)
        records = iter(reader)
        assert len(list(islice(records, KEPT + LOST))) == KEPT + LOST
        read, given = query.latestOffset(query.initialOffset()), ahead.initialOffset()
        lose()
        send(broker, topic, NEW)
        with pytest.raises(RecordsLost, match=LOSS):
            next(records)
    for fails in (lambda: query.latestOffset(read), lambda: query.partitions(read, read)):
        with pytest.raises(RecordsLost, match=LOSS):
            fails()
    assert ahead.latestOffset(given) == given, (
        "it has read nothing: its offset may be beyond the end"
    )
    query.stop()
    ahead.stop()
