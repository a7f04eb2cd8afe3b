"""Find the input offset at which a session continues, of this input topic.

An offset counts for one topic only, and a topic that was deleted and created again is another one. These name the
topic of their offset: the store (metadata.py), the group's committed offset (offset_metadata.py), a checkpoint
(checkpoint.json) and a snapshot (its manifest). What an earlier release wrote does not say so: it is of the input
topic in identity.json, which is recorded only after the others name the present topic.
"""

from dataclasses import dataclass, replace
from typing import Final

import structlog

from dedupe_kafka.offset_metadata import decode_metadata
from dedupe_kafka.offsets import NOTHING_READ, LastRead, Place
from dedupe_worker.kafka.admin import Topic
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.recovery.lost_tail import NOTHING_KNOWN, Known, LostTail, furthest, rewind
from dedupe_worker.recovery.tail import plan_start
from dedupe_worker.recovery.taken_over import TakenOver, committed_offset
from dedupe_worker.status import Degraded, WorkerState
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.metadata import StoreMetadata
from dedupe_worker.store.offset_ranges import decode_ranges

_MOST_OFFSETS_AGAIN: Final = 10_000

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class InputStart:
    """The input offset at which to continue.

    `committed` is the group's committed offset if it is of this input topic, `end` the partition's end at this start.
    `unlabelled`: the group has a committed offset that does not name this input topic, or another one counts. The
    topic's retention deleted `expired` offsets before `offset` before they were committed. `last_read` is the last
    record before `offset`, and `low` the first offset of the partition. `stored` is the output position that the store
    has with this offset: what is after it may be of input that is read again.
    """

    offset: int
    committed: Committed | None
    end: int
    unlabelled: bool = False
    expired: int = 0
    last_read: LastRead = NOTHING_READ
    low: int = 0
    stored: int | None = None

    @property
    def reads_from(self) -> int:
        """Return the offset to read from.

        It is after the last record: markers between that and `offset` may be lost, with records in their place.
        """
        if not self.last_read.is_known:
            return self.offset
        return max(self.low, min(self.offset, self.last_read.end))


def begin_input(
    worker_state: WorkerState,
    topic: Topic,
    store: IdStore,
    found: StoreMetadata | None,
    *,
    unlabelled: str,
    same_input: bool,
    earlier: frozenset[str],
) -> None:
    """Have the store name the input topic, and report if another one was read before.

    `found` is the metadata of the store as it was found, also if it was discarded since; `unlabelled` is the topic of a
    store of an earlier release. `same_input`: the identity on the volume names this topic. If it does not, but the
    store does, the start that has seen both was killed, and what it reported is lost. `earlier` are the topics that
    this stream's workers have read before it had routers: nothing of them is lost.
    """
    store.begin_input(topic.id, unlabelled=unlabelled)
    stored = found is not None and (found.input_topic or unlabelled) not in {topic.id, *earlier}
    reported = any(
        each.reason == Degraded.INPUT_TOPIC_REPLACED for each in worker_state.degradations.current()
    )
    if not stored and (same_input or reported):
        return
    read_to = found.input_offset if found and stored else -1
    # An older checkpoint may be behind what this process has committed.
    done = max(read_to, worker_state.input.next_offset)
    unread = max(0, worker_state.known_input_end - done)
    worker_state.known_input_end = -1
    read = f"up to offset {read_to}" if read_to >= 0 else "in part"
    lost = f" (at least {unread} offsets)" if unread else ""
    worker_state.degradations.record(
        Degraded.INPUT_TOPIC_REPLACED,
        f"input topic {topic.name} was deleted and created again. The earlier one was read {read}; what it had after "
        f"that is lost{lost}. The new one is read from its start",
    )
    log.error("input topic replaced", topic=topic.name, read=read_to, unread=unread)


def find_start(
    partition: TakenOver,
    reader: PartitionReader,
    store: IdStore,
    worker_state: WorkerState,
    group: str,
    *,
    tail: LostTail,
    read_before: Known = NOTHING_KNOWN,
    trims: bool = False,
) -> InputStart:
    """Find the input offset at which to continue. Raises StreamError.

    `read_before` is the position of a discarded store. `trims`: the workers themselves delete input that is committed.
    What is committed through `reader` from now on carries the last record before the offset.
    """
    topic, number = partition.input_topic, partition.identity.partition
    found = committed_offset(partition, reader.committed, group)
    of = decode_metadata(found.metadata).input_topic if found else ""
    same = of == topic.id if of else partition.same_input
    committed = found if same else None
    available = partition.topics.offsets(topic.name, number)
    if (of and not same) or (partition.recorded is not None and not partition.same_input):
        # Made anew: its records count from the first on.
        read_before = read_before if read_before.offset >= 0 else Known(0)
    high_watermark = partition.topics.high_watermark(topic.name, number)
    known = furthest(committed, store.metadata, read_before)
    place, end = (topic.name, number), max(available.end, high_watermark)
    parting = tail.accepted_parting(place, known, end)
    if parting is not None:
        known = _accept(worker_state, store, place, known, parting)
    start = plan_start(known, available, high_watermark=high_watermark)
    # A long stretch of aborted records after the last record is not read again to prove that one.
    near = start.offset - known.last_read.end <= _MOST_OFFSETS_AGAIN
    reader.last_read = known.last_read if near else NOTHING_READ
    if trims and committed is None:
        # The group's offset has expired, and the store is an older one: what is gone was committed before, so it is in
        # the output.
        start = replace(start, expired=0)
    if start.expired:
        worker_state.tally.expired_offsets += start.expired
        worker_state.degradations.record(
            Degraded.INPUT_EXPIRED,
            f"the retention of input topic {topic.name} deleted records before they were read; raise retention.ms",
            start.expired,
        )
        log.error("input records expired before they were read", offsets=start.expired)
    unlabelled = (found is not None and of != topic.id) or parting is not None
    return InputStart(
        start.offset,
        committed,
        available.end,
        unlabelled,
        start.expired,
        last_read=reader.last_read,
        low=available.low,
        stored=_position_of(store.metadata, start.offset),
    )


def _position_of(metadata: StoreMetadata | None, offset: int) -> int | None:
    """Return the end of the output of input before an offset, as a store knows it.

    Own output may stand behind foreign records that are not learnt yet. None if the store has another offset, or has
    read nothing of this input: then its position may be of an earlier input.
    """
    if metadata is None or offset <= 0 or metadata.input_offset != offset:
        return None
    own = decode_ranges(metadata.own_output)
    return max([metadata.output_position, *(each.end for each in own)])


def _accept(
    worker_state: WorkerState, store: IdStore, place: Place, known: Known, parting: LastRead
) -> Known:
    """Continue where the logs part: on disk, and in the status once."""
    topic, number = place
    worker_state.degradations.record(
        Degraded.INPUT_TRUNCATED,
        f"{topic}/{number} was read up to offset {known.offset}, and the brokers have lost what was there from offset "
        f"{parting.end} on. It is read on from there, as spec.input.acceptTruncated says: what was read and lost is "
        "in the output, and what was not read is lost",
    )
    log.error("input continues where it was truncated", place=place, offset=parting.end)
    rewind(store, parting)
    return Known(parting.end, parting)


def begin_output(start: InputStart, partition: TakenOver) -> InputStart:
    """Return the start for an output topic that is not the volume's.

    An output position of another topic does not count. The committed offset may be newer than the volume, and of this
    topic; without topic ids nothing shows that.
    """
    committed, recorded, topic = start.committed, partition.recorded, partition.output_topic.id
    same = committed is not None and decode_metadata(committed.metadata).output_topic == topic
    told_apart = recorded is not None and recorded.output_topic_id != topic
    return start if same and told_apart else replace(start, committed=None)
