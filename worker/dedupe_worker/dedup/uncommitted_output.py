"""Find output whose input offset is not committed (at-least-once only).

Without transactions, a crash or an error can leave records in the output topic whose input offset is not committed.
Their input is read again, and they must not be produced twice. Each committed input offset has metadata: an output
position. All output before it is of input before that offset; all output after it is of records that will be read
again, unless retention deletes them first. `Session` reads the ids there, and `Classifier` drops each such record once
and counts it as redelivered: it is neither new nor a duplicate. With transactions there is no uncommitted output.
Until all of it was taken, the position stays before the rest: the session may end meanwhile.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import closing
from threading import Event
from typing import Final

import structlog

from dedupe_ids.extract import ID_BYTES, Extractor
from dedupe_kafka.offset_metadata import decode_metadata
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.consumer import PartitionReader, read_output

MAX_OFFSETS: Final = 1_000_000
"""The most output offsets to read: far above any transaction, and a bound on memory."""

log = structlog.get_logger()


def recorded_position(
    committed: Committed | None, offset: int, output_topic_id: str, input_topic: str = ""
) -> int | None:
    """Return the output position that was committed with an input offset.

    None if this is not the committed offset, or if its metadata is of another output or input topic. Metadata of an
    earlier release names no input topic.

    >>> recorded_position(Committed(5, "Ab1:7"), 5, "Ab1"), recorded_position(Committed(5, "Ab1:7"), 5, "Cd2")
    (7, None)
    """
    if committed is None or committed.offset != offset:
        return None
    of = decode_metadata(committed.metadata)
    same = of.output_topic == output_topic_id and of.input_topic in {"", input_topic}
    return of.position if same else None


class UncommittedIds:
    """The ids of uncommitted output with their offsets, each as often as it is there.

    Input from `end` on was never read before. `expired`: retention has deleted input that some of them may be of. It is
    not known which, but the output is in the order of the input: after a record that it lacks they are all of that.
    """

    def __init__(
        self, ids: Iterable[tuple[int, bytes]] = (), *, end: int = 0, expired: bool = False
    ) -> None:
        self._offsets: dict[bytes, list[int]] = {}
        self._position: int | None = None
        for offset, packed_id in ids:
            if self._position is None:
                self._position = offset
            self._offsets.setdefault(packed_id, []).append(offset)
        self._end = end
        self._expired = expired

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._offsets)

    def take(
        self, ids: bytes, rows: Iterable[int], repeats: Container[int], first_offset: int
    ) -> list[int]:
        """Return which of the `rows` of packed `ids`, in order, are in the output already.

        Each id counts as often as the output has it. `repeats` are the rows whose id is known. Others may be in the
        output, too: a store may have forgotten their ids since they were read there. `first_offset` is the input offset
        at which the batch begins.
        """
        if first_offset >= self._end:
            self._offsets.clear()
        taken = []
        for row in rows if self._offsets else ():
            offset = self._take(ids[ID_BYTES * row : ID_BYTES * (row + 1)])
            if offset is not None:
                taken.append(row)
                self._position = offset + 1
            elif row not in repeats:
                self._position = None
                if self._expired:
                    self._offsets.clear()
                    break
        return taken

    def position(self, end: int | None) -> int | None:
        """Return the output position for a commit: after what was taken, or `end`.

        The output is in the order of the input. So what is left before the last one that was taken is of another
        producer, and so is all that is left once the output lacked a record.
        """
        return end if self._position is None or not self._offsets else self._position

    def _take(self, packed_id: bytes) -> int | None:
        """Take an id once; return its output offset, None if it is not there."""
        offsets = self._offsets.get(packed_id)
        if offsets is None:
            return None
        offset = offsets.pop(0)
        if not offsets:
            del self._offsets[packed_id]
        return offset


def read_ids(
    open_reader: Callable[[], PartitionReader],
    extract: Extractor,
    *,
    start: int | None,
    end: int,
    stop: Event,
    on_read: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, bytes]]:
    """Yield the ids in the output's [start, end), each with its offset.

    `on_read` is called after each batch. It yields nothing if no start is known, or if the range is longer than
    MAX_OFFSETS.
    """
    if start is None or start >= end:
        return
    if end - start > MAX_OFFSETS:
        log.warning("other producers write to the output topic", offsets=end - start)
        return
    with closing(open_reader()) as reader:
        reader.seek(start)
        for batch in read_output(reader, start=start, end=end, stop=stop):
            on_read()
            ids = extract(batch.records)
            for at, row in enumerate(ids.rows.tolist()):
                packed_id = ids.packed[at * ID_BYTES : (at + 1) * ID_BYTES]
                yield batch.records[row].offset() or 0, packed_id
