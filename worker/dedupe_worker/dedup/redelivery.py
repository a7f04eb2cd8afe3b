"""What was sent without a transaction and not committed: after a crash, or an error, its input is read again.

With each input offset that is committed stands a note: the output position up to which all is of input before that
offset. What the output has beyond it is of records that come again. Each of these is neither new nor a duplicate: its
output is there, so it is dropped, and not taken for a duplicate of itself. With transactions there is nothing in doubt.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from threading import Event
from typing import Final

import structlog

from dedupe_ids.extract import ID_BYTES, Extractor
from dedupe_worker.kafka.consumer import Committed, PartitionReader
from dedupe_worker.recovery.tail import read_output

MOST: Final = 1_000_000
"""Output offsets that are looked at: far above any transaction, and what they take in memory is bounded."""

log = structlog.get_logger()


def note_of(output_topic_id: str, position: int) -> str:
    """What stands with a committed offset.

    >>> note_of("Ab1", 7)
    'Ab1:7'
    """
    return f"{output_topic_id}:{position}"


def noted_position(committed: Committed | None, offset: int, output_topic_id: str) -> int | None:
    """The output position that goes with an input offset; None if that is not the committed one, or has no such note.

    >>> noted_position(Committed(5, "Ab1:7"), 5, "Ab1"), noted_position(Committed(5, "Ab1:7"), 5, "Cd2")
    (7, None)
    """
    if committed is None or committed.offset != offset:
        return None
    topic_id, _, position = (committed.note or "").rpartition(":")
    return int(position) if topic_id == output_topic_id and position.isdecimal() else None


class InDoubt:
    """The ids of what is in doubt, each as often as the output has it. Input from `end` on was never read before."""

    def __init__(self, ids: Iterable[bytes] = (), *, end: int = 0) -> None:
        self._ids = Counter(ids)
        self._end = end

    def take(self, ids: bytes, at: Sequence[int], first_offset: int) -> list[int]:
        """Which of the places `at` in packed `ids` came out before, of a batch that begins at an input offset."""
        if not self._ids:
            return []
        if first_offset >= self._end:
            self._ids.clear()
            return []
        return [place for place in at if self._take(ids[ID_BYTES * place : ID_BYTES * (place + 1)])]

    def _take(self, one: bytes) -> bool:
        if not self._ids[one]:
            return False
        self._ids[one] -= 1
        return True


def ids_between(
    open_reader: Callable[[], PartitionReader],
    extract: Extractor,
    *,
    start: int | None,
    end: int,
    stop: Event,
) -> Iterator[bytes]:
    """The ids in the output's [start, end); none if no start is known, or of a range that is too long."""
    if start is None or start >= end:
        return
    if end - start > MOST:
        log.warning("others write to the output topic", offsets=end - start)
        return
    with closing(open_reader()) as reader:
        reader.seek(start)
        for batch in read_output(reader, start=start, end=end, stop=stop):
            packed = extract(batch.records).packed
            yield from (packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES))
