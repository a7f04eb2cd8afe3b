"""Learn ids that other producers write between the worker's own records.

The session calls it every few seconds. `PartitionOutput.unread` holds the offsets among which there may be such
records. Invariant: until they are read the store's position stays before them, so the next start would read them.
"""

from contextlib import closing
from threading import Event

import structlog

from dedupe_ids.extract import Extractor
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.dedup.window import Window
from dedupe_worker.errors import OutputTruncated
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.recovery.lost_output import has_lost
from dedupe_worker.recovery.tail import catch_up
from dedupe_worker.side_topics.owner_log import OutputValues

log = structlog.get_logger()


def read_foreign(  # noqa: PLR0917 (the session's components, each once)
    factory: ComponentFactory,
    topics: Topics,
    extract: Extractor,
    output: PartitionOutput,
    window: Window,
    stop: Event,
) -> bool:
    """Add the ids of unread output to the window; return whether none is left.

    An open transaction may hide them; then it does nothing. No transaction of this worker is open. Raises StreamError:
    OutputTruncated if others have written in the place of the last record of before, which the brokers have lost.
    """
    unread, metadata = output.unread, window.store.metadata
    if unread is None or metadata is None:
        return True
    topic, partition = factory.config.stream.spec.output.topic, factory.config.partition
    there = topics.offsets(topic, partition)
    if there.end < unread.end:
        return False
    if has_lost(factory, topic, metadata.last_written, there, stop):
        raise OutputTruncated(
            f"{topic}/{partition} has records of other producers in the place of this worker's: the brokers have lost "
            "what was there; starting again"
        )
    log.info("reading records of other producers", start=unread.low, end=unread.end)
    with closing(factory.make_reader(topic)) as reader:
        reader.seek(unread.low)
        catch_up(
            reader,
            window,
            extract,
            # The owner log has no entries about them.
            OutputValues(factory.policy.layout, partition=partition, owner_log=None),
            start=unread.low,
            end=unread.end,
            begin=None,
            input_offset=metadata.input_offset,
            stop=stop,
            clock=factory.clock,
            on_progress=lambda _: factory.worker_state.heartbeat(),
            own=output.own,
        )
    if stop.is_set():
        return False
    output.mark_read()
    return True
