"""Tell whether the output topic reaches back as far as a rebuilt window should.

Ids age only while the worker is caught up (dedup/ageing_clock.py). So a backlog needs the ids of `maxAge` before its
first record. When it arrived is not known; its timestamp is its producer's, as those in the output are. A message may
be late by any time, so the output begins at the newest of its first timestamps. Invariant: whatever is not known
shortens the window, so that no shorter one is called whole for want of a timestamp.
"""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.kafka.consumer import Reader, read_output
from dedupe_worker.recovery.taken_over import TakenOver

_NO_TIME: Final = -1
_FIRST_RECORDS: Final = 10
"""Of a stream so slow that these take days, a window may be called shorter that is whole: the harmless mistake."""


def reaches_back(
    factory: ComponentFactory, partition: TakenOver, start: int, input_offset: int, stop: Event
) -> bool:
    """Return whether the output from `start` on has what unread input may repeat.

    `start` is where the output begins, and not 0. Raises StreamError.
    """
    first_ms = partial(_first_times_ms, factory, partition, stop)
    now_ms = int(factory.clock.time_ms())
    oldest_ms = min([now_ms, *first_ms(partition.input_topic.name, input_offset, 1)])
    max_age = factory.config.stream.spec.store.window.max_age
    # Not by the broker's search for a timestamp: it may find nothing where records were deleted.
    output_ms = first_ms(partition.output_topic.name, start, _FIRST_RECORDS)
    since_ms = oldest_ms - max_age // timedelta(milliseconds=1)
    return bool(output_ms) and min(output_ms) > _NO_TIME and max(output_ms) < since_ms


def _first_times_ms(  # noqa: PLR0917 (the first three are of one start)
    factory: ComponentFactory, partition: TakenOver, stop: Event, topic: str, start: int, most: int
) -> list[int]:
    """Return the timestamps of the first records from `start` on, as `first_times_ms`."""
    there = partition.topics.offsets(topic, partition.identity.partition)
    low = max(start, there.low)
    if low >= there.end:
        return []
    with closing(factory.make_reader(topic)) as reader:
        reader.seek(low)
        return first_times_ms(
            reader,
            start=low,
            end=there.end,
            most=most,
            stop=stop,
            on_read=factory.worker_state.heartbeat,
        )


def first_times_ms(
    reader: Reader, *, start: int, end: int, most: int, stop: Event, on_read: Callable[[], None]
) -> list[int]:
    """Return the timestamps of the first `most` records in [start, end).

    Unix milliseconds; fewer if there are fewer, -1 of one that has no timestamp. `reader` is at `start`.

    Raises StreamError.
    """
    times: list[int] = []
    for batch in read_output(reader, start=start, end=end, stop=stop, largest=most):
        on_read()
        for each in batch.records[: most - len(times)]:
            kind, time_ms = each.timestamp()
            times.append(_NO_TIME if kind == TIMESTAMP_NOT_AVAILABLE else time_ms)
        if len(times) == most:
            break
    return times
