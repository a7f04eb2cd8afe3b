"""Catch the store up with the output topic, which is the truth, on each start.

`startup.py` calls it before the first new record. Usually this reads the tail that was written after the store's last
flush. A store that cannot be trusted is rebuilt from the records that the output topic still holds. `plan_catch_up` and
`plan_start` decide, without I/O.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from threading import Event
from typing import Final

import numpy as np
from confluent_kafka import Message

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_ids.batch import Mask, Rows
from dedupe_ids.extract import Extractor
from dedupe_kafka.fetch_errors import InputTruncated
from dedupe_kafka.offsets import NOTHING_READ, LastRead, OffsetRange
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.consumer import Reader, read_output
from dedupe_worker.recovery.lost_tail import Known
from dedupe_worker.side_topics.owner_log import OutputValues
from dedupe_worker.status import Progress
from dedupe_worker.store.metadata import LastRecords, StoreMetadata
from dedupe_worker.store.state_dir import Identity
from dedupe_worker.values import timestamps

_WRITE_RECORDS: Final = 100_000  # sorted together: large sorted writes cost half of small ones


class Trust(Enum):
    """The condition of a store on disk."""

    WHOLE = auto()
    """The store is as it was left."""
    CHECKPOINT = auto()
    """The store was damaged, and the newest checkpoint has replaced it."""
    NONE = auto()
    """RocksDB found its files damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpPlan:
    """Read the output from `start`; with `rebuild` into an empty store.

    `truncated`: ids within the window's age are gone from the output topic, so that the window is shorter than it
    should be. `reason` is for users.
    """

    start: int
    rebuild: bool
    truncated: bool
    reason: str


def plan_catch_up(
    metadata: StoreMetadata | None,
    *,
    recorded: Identity | None,
    output_topic_id: str,
    output: OffsetRange,
    window_start: int,
    trust: Trust = Trust.WHOLE,
    ahead: bool = False,
    made_anew: bool = False,
) -> CatchUpPlan:
    """Decide how much of the output partition to read.

    A rebuild reads the whole output: its timestamps are the producers', which may be of any time, so they do not show
    which ids the window still held. `window_start`, the first offset with a timestamp within the window's age, only
    shows whether the output reaches back as far as the window should. `ahead`: the store has ids that the output has
    lost (lost_output.py). `made_anew`: the output topic is another one, though its id is the same (topic_proof.py).
    """
    replaced = (recorded is not None and recorded.output_topic_id != output_topic_id) or made_anew
    if replaced:
        reason = "OutputTopicReplaced"
    elif trust is Trust.NONE:
        reason = "StoreCorrupt"
    elif recorded is None or metadata is None:
        reason = "NewStore"
    elif ahead:
        reason = "StoreAheadOfOutput"
    elif metadata.output_position < output.low:
        reason = "TailRetainedAway"
    else:
        reason = "Checkpoint" if trust is Trust.CHECKPOINT else "Tail"
        return CatchUpPlan(
            start=metadata.output_position, rebuild=False, truncated=False, reason=reason
        )
    reaches_back = window_start > output.low or output.low == 0
    return CatchUpPlan(
        start=output.low,
        rebuild=True,
        truncated=replaced or reason == "TailRetainedAway" or not reaches_back,
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Read the input from `offset`.

    `expired` offsets before it were deleted by the topic's retention, unread.
    """

    offset: int
    expired: int


def plan_start(known: Known, available: OffsetRange, *, high_watermark: int = 0) -> StartPlan:
    """Decide at which input offset to continue; all are of this input topic.

    The store's offset counts as well as the committed one, because a group's offsets expire (after seven idle days by
    default) and can be reset; going back would produce again the records that are older than the window. So does
    that of a store which was discarded for what the output lacks.
    `high_watermark` is after `available` while a transaction is open in the input: a user may set the group's offset
    to there, and the reader waits.

    Raises InputTruncated if the partition ends before the last record that was read.
    """
    end = max(available.end, high_watermark)
    if known.read_to > end:
        raise InputTruncated(
            f"the input ends at offset {end} but was read up to {known.offset}: the broker lost records. "
            "When the cause is understood, delete the state directory and set the group's offset to where to continue"
        )
    if known.offset < 0:
        return StartPlan(available.low, 0)
    # Behind the end there are only lost markers of transactions before.
    offset = known.offset if known.offset <= end else known.read_to
    return StartPlan(max(offset, available.low), max(0, available.low - offset))


def begin_rebuild(
    window: Window,
    *,
    start: int,
    input_offset: int,
    last_read: LastRead = NOTHING_READ,
    truncated: bool,
    first_ms: int,
    now_ms: int,
) -> None:
    """Write where an empty store begins, with the marks of what it lacks, to disk.

    All of it is on disk before the first id: a store with a position is never planned as a rebuild again, so a mark
    that came later could be lost with the process. `first_ms` is the timestamp of the first record from `start` on.
    Earlier output records are not remembered; they are about as old as that one, and no younger than now.
    """
    window.commit(
        output_position=start,
        input_offset=input_offset,
        seen_ms=now_ms,
        newest_ms=0,
        last=LastRecords(read_up_to=last_read),
    )
    if truncated:
        window.store.mark_truncated()
    if start > 0:
        window.store.mark_forgotten(min(first_ms, now_ms))
    window.store.flush()


def catch_up(
    reader: Reader,
    window: Window,
    extract: Extractor,
    values: OutputValues,
    *,
    start: int,
    end: int,
    begin: Callable[[int], None] | None,
    input_offset: int,
    last_read: LastRead = NOTHING_READ,
    stop: Event,
    on_progress: Callable[[Progress], None],
    clock: Clock = SYSTEM_CLOCK,
    own: Sequence[OffsetRange] = (),
) -> None:
    """Add the ids of the output in [start, end) that the window does not have yet.

    `reader` is at `start`. `begin` is called once before the first id, with the timestamp of the first record, or the
    present time if there is none. Returns early when `stop` is set. `on_progress` is called after each batch. In `own`
    are records that the window had when they were written: it gets none of them back that it has forgotten. `last_read`
    is the last record before `input_offset`: the group's offset, which has it too, may expire.
    """
    began = clock.monotonic()
    records, unwritten, position = 0, 0, start
    newest_ms = 0
    # An empty store has no value to keep.
    replaced: dict[bytes, bytes] | None = None if begin else {}
    write_records = min(_WRITE_RECORDS, window.store.bounds.largest_write_records)
    on_progress(Progress(records, end - position, 0.0))
    for batch in read_output(reader, start=start, end=end, stop=stop, largest=write_records):
        position = batch.next_offset
        if batch.records:
            ids = extract(batch.records)
            times = timestamps(batch.records)
            if begin and not records:
                begin(int(times[0]))
            found = values.values(batch.records, ids.rows, times)
            own_rows = _within(own, batch.records, ids.rows) if own else None
            window.learn(ids.packed, found, replaced, own_rows)
            newest_ms = max(newest_ms, int(times.max()))
            records += len(batch.records)
            unwritten += len(batch.records)
        if unwritten >= write_records or (unwritten and position >= end):
            now_ms = clock.time_ms()
            # Ageing takes them as seen now: the real time is not known (the records' timestamps are their
            # producers'), and too early a time would forget ids that are still in use.
            window.commit(
                output_position=position,
                input_offset=input_offset,
                seen_ms=now_ms,
                newest_ms=newest_ms,
                last=LastRecords(read_up_to=last_read),
                own=own,
            )
            window.age(now_ms)
            unwritten = 0
        on_progress(Progress(records, max(0, end - position), clock.monotonic() - began))
    if begin and not records and not stop.is_set():  # transaction markers only
        begin(clock.time_ms())


def _within(ranges: Sequence[OffsetRange], records: Sequence[Message], rows: Rows) -> Mask:
    """Return which `rows` (n,) of a batch are in the ranges: shape (n,).

    The ranges ascend.
    """
    offsets = np.fromiter(map(Message.offset, records), np.int64, len(records))[rows]
    bounds = np.array([(each.low, each.end) for each in ranges], np.int64).ravel()
    # An odd number of bounds before an offset: the last one is where a range begins.
    within: Mask = np.searchsorted(bounds, offsets, "right") % 2 == 1
    return within
