"""Bring the store up to the output topic, which is the truth: on every start, before the first new record.

Usually this reads the tail that came after the store's last flush. Where the store can't be trusted it is rebuilt
from what the output topic still holds. `plan_reconcile` and `plan_start` decide, without I/O.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from threading import Event
from typing import Final

from dedupe_ids.extract import Extractor
from dedupe_kafka.errors import StreamError
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.admin import Range
from dedupe_worker.kafka.consumer import Batch, Reader, timestamps
from dedupe_worker.side_topics.owner_log import Recall
from dedupe_worker.store.metadata import Stamp
from dedupe_worker.store.state_dir import Identity

_BATCH_RECORDS: Final = 10_000
_WRITE_RECORDS: Final = 100_000  # sorted together: large sorted writes cost half of small ones
_WAIT_SECONDS: Final = 0.2


class InputTruncated(StreamError):
    """The input partition ends before what was already read: the broker has lost records."""

    retriable = True


class Trust(Enum):
    """What is to be thought of a store that was opened."""

    WHOLE = auto()
    """It is as it was left."""
    CHECKPOINT = auto()
    """It was damaged, and the newest checkpoint has taken its place."""
    NONE = auto()
    """RocksDB found its files damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePlan:
    """Read the output from `start`; `rebuild`: into an empty store. `truncated`: ids within the window's age are
    gone from the output topic, so that the window is shorter than it should be. `reason` is for users."""

    start: int
    rebuild: bool
    truncated: bool
    reason: str


def plan_reconcile(
    stamp: Stamp | None,
    *,
    recorded: Identity | None,
    output_topic_id: str,
    output: Range,
    window_start: int,
    trust: Trust = Trust.WHOLE,
    reach: int = 0,
) -> ReconcilePlan:
    """Decide how much of the output partition to read.

    A rebuild reads all that the output still has: its timestamps are the producers', which may be of any time, so
    they can't tell which ids the window still held. `window_start`, the first offset with a timestamp within the
    window's age, only tells whether the output reaches back as far as the window should. `reach` is the output position
    before which all of the store's ids are from, if that is behind its stamp's.
    """
    replaced = recorded is not None and recorded.output_topic_id != output_topic_id
    if replaced:
        reason = "OutputTopicReplaced"
    elif trust is Trust.NONE:
        reason = "StoreCorrupt"
    elif recorded is None or stamp is None:
        reason = "NewStore"
    elif max(stamp.output_position, reach) > output.end:
        reason = "StoreAheadOfOutput"
    elif stamp.output_position < output.low:
        reason = "TailRetainedAway"
    else:
        reason = "Checkpoint" if trust is Trust.CHECKPOINT else "Tail"
        return ReconcilePlan(
            start=stamp.output_position, rebuild=False, truncated=False, reason=reason
        )
    reaches_back = window_start > output.low or output.low == 0
    return ReconcilePlan(
        start=output.low,
        rebuild=True,
        truncated=replaced or reason == "TailRetainedAway" or not reaches_back,
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Read the input from `offset`. `expired` offsets before it were deleted by the topic's retention, unread."""

    offset: int
    expired: int


def plan_start(
    *, committed: int | None, stamp: Stamp | None, same_input: bool, available: Range
) -> StartPlan:
    """Decide where to go on in the input.

    The store's own offset counts beside the committed one, because a group's offsets expire (after seven idle days
    by default) and can be reset; going back would pass on again what is older than the window. `same_input` is False
    when the input topic was deleted and created again, so that offsets on record speak of another topic.

    Raises InputTruncated if the partition ends before that offset.
    """
    known = -1
    if same_input:
        known = max(
            -1 if committed is None else committed, -1 if stamp is None else stamp.input_offset
        )
    if known > available.end:
        raise InputTruncated(
            f"the input ends at offset {available.end} but was read up to {known}: the broker lost records. "
            "When that is understood, delete the state directory and set the group's offset to where to go on"
        )
    if known < 0:
        return StartPlan(available.low, 0)
    return StartPlan(max(known, available.low), max(0, available.low - known))


@dataclass(frozen=True, slots=True)
class Progress:
    """Records read so far, and offsets still to read (an upper bound of records)."""

    records: int
    remaining: int
    seconds: float


def read_output(
    reader: Reader, *, start: int, end: int, stop: Event, largest: int = _BATCH_RECORDS
) -> Iterator[Batch]:
    """The output partition in [start, end), at most `largest` records at a time; ends early when `stop` is set.

    `reader` stands at `start`. The last batch ends at `end` or behind it.
    """
    position = start
    while position < end and not stop.is_set():
        batch = reader.read(min(_BATCH_RECORDS, largest), _WAIT_SECONDS)
        reader.check(end)
        position = batch.next_offset
        yield batch


def reconcile(
    reader: Reader,
    window: Window,
    extract: Extractor,
    recall: Recall,
    *,
    start: int,
    end: int,
    forgets: bool,
    input_offset: int,
    stop: Event,
    on_progress: Callable[[Progress], None],
) -> None:
    """Add every id of the output partition in [start, end) that the window does not have yet.

    `reader` stands at `start`. `forgets`: what the output had before is not remembered; that is about as old as the
    first record. Returns early when `stop` is set. `on_progress` is called after each batch.
    """
    began = time.monotonic()
    records, unwritten, position = 0, 0, start
    newest_ms = 0
    write_records = min(_WRITE_RECORDS, window.store.bounds.largest_write_records)
    on_progress(Progress(records, end - position, 0.0))
    for batch in read_output(reader, start=start, end=end, stop=stop, largest=write_records):
        position = batch.next_offset
        if batch.records:
            ids = extract(batch.records)
            times = timestamps(batch.records)
            window.admit(ids.packed, recall.values(batch.records, ids.rows, times))
            if forgets and not records:  # a producer's clock may be ahead
                window.store.mark_forgotten(min(int(times[0]), int(time.time() * 1000)))
            newest_ms = max(newest_ms, int(times.max()))
            records += len(batch.records)
            unwritten += len(batch.records)
        if unwritten >= write_records or (unwritten and position >= end):
            now_ms = int(time.time() * 1000)
            # Seen now, as far as the ageing goes: when it was is not known (the records' timestamps are
            # their producers'), and too early a time would forget ids that are still in use.
            window.commit(
                output_position=position,
                input_offset=input_offset,
                seen_ms=now_ms,
                newest_ms=newest_ms,
            )
            window.store.age(now_ms)
            unwritten = 0
        on_progress(Progress(records, max(0, end - position), time.monotonic() - began))
