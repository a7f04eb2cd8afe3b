"""Tell whether the output topic reaches back as far as a rebuilt window should.

Ids age only while the worker is caught up (dedup/ageing_clock.py). So a backlog needs the ids of `maxAge` before its
first record. When it arrived is not known; its timestamp is its producer's, as those in the output are. Invariant:
whatever is not known shortens the window, so that no shorter one is called whole for want of a timestamp.
"""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
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
    first_ms = partial(_first_time_ms, factory, partition, stop)
    oldest_ms = int(factory.clock.time_ms())
    unread_ms = first_ms(partition.input_topic.name, input_offset)
    if unread_ms is not None:
        oldest_ms = min(oldest_ms, unread_ms)
    max_age = factory.config.stream.spec.store.window.max_age
    # Not by the broker's search for a timestamp: it may find nothing where records were deleted.
    output_ms = first_ms(partition.output_topic.name, start)
    since_ms = oldest_ms - max_age // timedelta(milliseconds=1)
    return output_ms is not None and _NO_TIME < output_ms < since_ms


def _first_time_ms(
    factory: ComponentFactory, partition: TakenOver, stop: Event, topic: str, start: int
) -> int | None:
    """Return the timestamp of the first record from `start` on, as `first_time_ms`."""
    there = partition.topics.offsets(topic, partition.identity.partition)
    low = max(start, there.low)
    if low >= there.end:
        return None
    with closing(factory.make_reader(topic)) as reader:
        reader.seek(low)
        return first_time_ms(
            reader, start=low, end=there.end, stop=stop, on_read=factory.worker_state.heartbeat
        )


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
