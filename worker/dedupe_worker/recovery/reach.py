"""Tell whether the output topic reaches back as far as a rebuilt window should.

Ids age only while the worker is caught up (dedup/ageing_clock.py). So a backlog needs the ids of `maxAge` before its
first record. When it arrived is not known; its timestamp is its producer's, as those in the output are. Invariant:
whatever is not known shortens the window, so that no shorter one is called whole for want of a timestamp.
"""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Event

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.kafka.consumer import Reader, read_output
from dedupe_worker.recovery.taken_over import TakenOver

_NO_TIME = -1


def reaches_back(
    factory: ComponentFactory, partition: TakenOver, start: int, input_offset: int, stop: Event
) -> bool:
    """Return whether the output from `start` on has what unread input may repeat.

    `start` is where the output begins, and not 0. Raises StreamError.
    """
    topics, number = partition.topics, partition.identity.partition
    name = partition.input_topic.name
    unread = topics.offsets(name, number)
    oldest_ms = int(factory.clock.time_ms())
    if input_offset < unread.end:
        low = max(input_offset, unread.low)
        with closing(factory.make_reader(name)) as reader:
            reader.seek(low)
            first_ms = first_time_ms(
                reader,
                start=low,
                end=unread.end,
                stop=stop,
                on_read=factory.worker_state.heartbeat,
            )
        oldest_ms = oldest_ms if first_ms is None else min(oldest_ms, first_ms)
    max_age = factory.config.stream.spec.store.window.max_age
    since_ms = oldest_ms - max_age // timedelta(milliseconds=1)
    if since_ms <= 0:  # no record is so old
        return False
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    offset = topics.offset_at(partition.output_topic.name, number, since)
    return offset is None or offset > start


def first_time_ms(
    reader: Reader, *, start: int, end: int, stop: Event, on_read: Callable[[], None]
) -> int | None:
    """Return the timestamp of the first record in [start, end), Unix milliseconds.

    None if there is none, -1 if it has no timestamp. `reader` is at `start`. Raises StreamError.
    """
    for batch in read_output(reader, start=start, end=end, stop=stop, largest=1):
        on_read()
        if batch.records:
            kind, time_ms = batch.records[0].timestamp()
            return _NO_TIME if kind == TIMESTAMP_NOT_AVAILABLE else time_ms
    return None
