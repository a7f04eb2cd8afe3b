"""What is remembered of a record that the store learns from the output topic rather than from the input.

Its content and timestamp are the record's own; which input record it was, the notes beside the output say
(owner_notes.py), which are read in step with it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import numpy as np
import structlog
from confluent_kafka import Message
from numpy.typing import NDArray

from dedupe_worker.dedup.judge import Rows
from dedupe_worker.kafka.consumer import Reader
from dedupe_worker.side_topics.owner_notes import decode_note
from dedupe_worker.values import (
    OWNER,
    UNKNOWN_OWNER,
    Offsets,
    Owners,
    Times,
    ValueLayout,
    encode_owners,
    unknown_owners,
)

EARLIER: Final = timedelta(hours=1)
"""How much older than what is read of the output the notes may be that belong to it: clocks differ."""

# Each tells of a transaction, so of up to some 100,000 records.
_NOTES_AT_ONCE: Final = 8
_WAIT_SECONDS: Final = 0.2
_UNKNOWN: Final = -1
_OFFSETS: Final = np.uint64((1 << 48) - 1)

log = structlog.get_logger()


class Notes:
    """The notes about owners, to be asked for ascending offsets of the output.

    `reader` stands about where those that are wanted begin; the topic ends at `end`. `rewind` has the reader stand at
    the topic's first, if it does not, for where they begin earlier: when an id was seen does not say when it was noted.
    """

    def __init__(
        self, reader: Reader, end: int, output_topic_id: str, *, rewind: Callable[[], None] | None
    ) -> None:
        self._reader = reader
        self._end = end
        self._rewind = rewind
        self._key = output_topic_id.encode()
        self._position = 0
        self._waiting: deque[tuple[int, Offsets]] = deque()

    def inputs(self, outputs: NDArray[np.int64]) -> NDArray[np.int64]:
        """The input offsets of output records, both ascending; -1 where no note tells. Raises StreamError."""
        found = np.full(len(outputs), _UNKNOWN)
        if not len(outputs):
            return found
        self._read_beyond(int(outputs[-1]))
        if self._rewind and not (self._waiting and self._waiting[0][0] <= outputs[0]):
            self._rewind()
            self._position = 0
            self._waiting.clear()
            self._read_beyond(int(outputs[-1]))
        self._rewind = None
        while self._waiting and _end(self._waiting[0]) <= outputs[0]:
            self._waiting.popleft()
        for first, inputs in self._waiting:
            at = outputs - first
            here = (at >= 0) & (at < len(inputs))
            found[here] = inputs[at[here]].astype(np.int64)
        return found

    def _read_beyond(self, output: int) -> None:
        """Have every note at hand that tells of outputs up to this one."""
        while self._position < self._end and not (self._waiting and self._waiting[-1][0] > output):
            batch = self._reader.read(_NOTES_AT_ONCE, _WAIT_SECONDS)
            self._reader.check(self._end)
            self._position = batch.next_offset
            for record in batch.records:
                if record.key() == self._key:
                    self._take(record)

    def _take(self, record: Message) -> None:
        try:
            self._waiting.append(decode_note(record.value() or b""))
        except ValueError as error:  # the owners of a chunk are unknown then, and nothing else is
            log.warning("note about owners passed over", offset=record.offset(), error=str(error))


class Recall:
    """What a stream remembers of output records, in a layout; of their owners, what `notes` tell, if there are any."""

    def __init__(self, layout: ValueLayout, *, partition: int, notes: Notes | None) -> None:
        self._layout = layout
        self._partition = partition
        self._notes = notes

    def values(self, records: Sequence[Message], rows: Rows, times: Times) -> Owners:
        """The values of `rows` (n,) of a batch of output records with these timestamps: shape (n,)."""
        if self._notes is None:
            owners = unknown_owners(len(rows))
        else:
            outputs = np.fromiter(map(Message.offset, records), np.int64, len(records))
            inputs = self._notes.inputs(outputs)[rows]
            owners = encode_owners(self._partition, inputs.astype(np.uint64) & _OFFSETS)
            owners[inputs == _UNKNOWN] = np.frombuffer(UNKNOWN_OWNER, OWNER)[0]
        return self._layout.encode(owners, records, rows, times)


def _end(note: tuple[int, Offsets]) -> int:
    first, inputs = note
    return first + len(inputs)
