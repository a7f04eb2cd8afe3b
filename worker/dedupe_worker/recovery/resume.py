"""Record the topics that a session begins with, and resume its output.

`Session` calls both after `input_offset` has found the input offset: `record_topics` before it catches up, `resume`
before its loop.
"""

from functools import partial
from threading import Event

from dedupe_crds.spec.topics import Delivery, Mode
from dedupe_ids.extract import Extractor
from dedupe_kafka.offset_metadata import decode_metadata, encode_metadata
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.dedup.border import NoBorder
from dedupe_worker.dedup.uncommitted_output import UncommittedIds, read_ids, recorded_position
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.recovery.input_offset import InputStart
from dedupe_worker.recovery.lost_output import reached
from dedupe_worker.recovery.taken_over import TakenOver


def record_topics(
    factory: ComponentFactory,
    partition: TakenOver,
    output: PartitionOutput,
    reader: PartitionReader,
    start: InputStart,
) -> None:
    """Have the committed offset name the input topic, then record the identity.

    In this order: with the identity recorded, an offset that names no topic counts. A checkpoint that has replaced the
    store has recorded its own input topic since the take-over. Raises StreamError.
    """
    ids = partition.output_topic.id, partition.input_topic.id
    if start.committed is None or start.unlabelled:
        position = recorded_position(start.committed, start.offset, *ids)
        if position is None and factory.policy.delivery is Delivery.AT_LEAST_ONCE:
            position = start.stored  # before the store catches up
        cut = decode_metadata(start.committed.metadata).cut if start.committed else None
        output.record_start(start.offset, reader, encode_metadata(*ids, position, cut))
    state, identity = factory.config.state, partition.identity
    if state.recorded(identity.stream, identity.partition) != identity:
        state.record(identity)


def resume(
    factory: ComponentFactory,
    partition: TakenOver,
    output: PartitionOutput,
    reader: PartitionReader,
    start: InputStart,
    *,
    extract: Extractor,
    position: int,
    border: NoBorder,
    stop: Event,
) -> UncommittedIds:
    """Set the output to its position; return the ids of uncommitted output.

    `position` is the output offset up to which the store has caught up, `border` the epoch that the worker has passed.
    Raises StreamError.
    """
    topics = partition.output_topic.id, partition.input_topic.id
    # Repeats of what retention has deleted unread may be dropped with it: not in a stream where they pass.
    expired = start.expired if factory.policy.mode is Mode.ENFORCE else 0
    recorded = recorded_position(start.committed, start.offset - expired, *topics)
    at_least_once = factory.policy.delivery is Delivery.AT_LEAST_ONCE
    if recorded is None and at_least_once:
        recorded = start.stored
        if recorded is None:
            output.record_start(
                start.offset, reader, encode_metadata(*topics, position, border.cut)
            )
    if recorded is not None and recorded < position:
        # What retention has deleted can't be read, and would be waited for at each start.
        name, number = partition.output_topic.name, partition.identity.partition
        recorded = max(recorded, partition.topics.offsets(name, number).low)
    ids = read_ids(
        partial(factory.make_reader, partition.output_topic.name),
        extract,
        start=recorded,
        end=position,
        stop=stop,
        on_read=factory.worker_state.heartbeat,
    )
    uncommitted = UncommittedIds(ids, end=start.end, expired=bool(expired))

    def metadata(end: int | None) -> str:
        return encode_metadata(*topics, uncommitted.position(end), border.cut)

    output.resume(position, metadata)
    came_short = reached(start.committed, partition.output_topic.id) > position
    if border.unrecorded or came_short:  # a growth waits for the one; the other counts once
        output.record_start(start.offset, reader, metadata(position if at_least_once else None))
    return uncommitted
