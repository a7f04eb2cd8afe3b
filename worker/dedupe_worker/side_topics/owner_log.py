"""The owner log: the input offset of each output record.

With it a store can be rebuilt from the output topic. Output records are as their producers wrote them, without their
position in the input. So each transaction writes entries about its output records to the same partition of the topic
`<output>-owners`:

    key          the output topic's UUID as text: entries about a topic that was deleted and created again are ignored
    byte  0      format, 1
    bytes 1-8    output offset of the first record, big-endian; the others follow without gaps
    then, compressed by zlib, runs of neighbouring input offsets: first offset and length, both 8 bytes, little-endian
    then the input topic's id as text, not compressed; releases that don't know of it ignore what follows the runs
    behind routers then a line feed, and the table of the places (origins.py) that the runs' first 2 bytes number

As few records are duplicates, runs are long and an entry takes a few bytes a duplicate. A header on each output record
would cost 25 bytes a record and change it.

The loop writes with `OwnerLogWriter`; the catch-up reads with `OwnerLogReader`, in step with the output. Invariant: an
entry is in the transaction of its records, so there is never one about records that were aborted.
"""

import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

import numpy as np
import structlog
from confluent_kafka import Message
from numpy.typing import NDArray

from dedupe_ids.batch import Rows
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.kafka.consumer import Reader
from dedupe_worker.kafka.side_records import SideRecord
from dedupe_worker.origins import Origins
from dedupe_worker.values import (
    OWNER,
    UNKNOWN_OWNER,
    Offsets,
    Times,
    ValueLayout,
    Values,
    encode_owners,
    owners_of,
    unknown_owners,
)

CLOCK_SKEW: Final = timedelta(hours=1)
"""The most that an entry may be older than its output record: clocks differ."""

_FORMAT: Final = 1
_HEAD: Final = struct.Struct(">Bq")
_MOST_RUNS: Final = 1 << 14
"""256 KiB before compression: less than any topic's max.message.bytes."""

_FASTEST: Final = 1
# Each is of one transaction, so of up to some 100,000 records.
_ENTRIES_AT_ONCE: Final = 8
_WAIT_SECONDS: Final = 0.2
_UNKNOWN: Final = -1
_OFFSETS: Final = np.uint64((1 << 48) - 1)

log = structlog.get_logger()


class OwnerEntry(NamedTuple):
    """The input offsets of the output records from `first_output` on.

    `input_topic` is empty in an entry of an earlier release. Behind routers `inputs` are whole owners, whose places
    `origins` names.
    """

    first_output: int
    inputs: Offsets
    input_topic: str = ""
    origins: str = ""

    @property
    def end(self) -> int:
        """Return the output offset after the last record."""
        return self.first_output + len(self.inputs)


def encode_entries(
    first_output: int, inputs: Offsets, input_topic: str = "", origins: str = ""
) -> Iterator[bytes]:
    """Encode the input offsets of output records from `first_output` on."""
    names = f"{input_topic}\n{origins}" if origins else input_topic
    starts = np.flatnonzero(np.diff(inputs, prepend=inputs[:1]) != 1)
    lengths = np.diff(starts, append=len(inputs))
    for at in range(0, len(starts), _MOST_RUNS):
        part = slice(at, at + _MOST_RUNS)
        runs = np.stack([inputs[starts[part]], lengths[part].astype(np.uint64)], axis=1)
        packed = zlib.compress(runs.astype("<u8").tobytes(), _FASTEST)
        head = _HEAD.pack(_FORMAT, first_output + int(starts[at]))
        yield head + packed + names.encode()


def decode_entry(value: bytes) -> OwnerEntry:
    """Decode one entry. Raises ValueError."""
    try:
        written, first_output = _HEAD.unpack_from(value)
        stream = zlib.decompressobj()
        runs = np.frombuffer(stream.decompress(value[_HEAD.size :]), "<u8").reshape(-1, 2)
    except (struct.error, zlib.error, ValueError) as error:
        raise ValueError(f"an entry of the owner log is damaged: {error}") from error
    if written != _FORMAT:
        raise ValueError(f"an entry of the owner log has format {written}, not {_FORMAT}")
    if not stream.eof:
        raise ValueError("an entry of the owner log is damaged: its end is missing")
    lengths = runs[:, 1].astype(np.int64)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    inputs = np.repeat(runs[:, 0].astype(np.uint64), lengths) + within.astype(np.uint64)
    input_topic, _, origins = stream.unused_data.decode(errors="replace").partition("\n")
    return OwnerEntry(first_output, inputs, input_topic, origins)


class OwnerLogWriter:
    """A `SideTopicWriter` of owner entries."""

    def __init__(
        self,
        topic: str,
        output_topic_id: str,
        input_topic: str = "",
        *,
        origins: Origins | None = None,
    ) -> None:
        self._topic = topic
        self._input_topic = input_topic
        self._origins = origins
        self._key = output_topic_id.encode()
        self._offsets: list[Offsets] = []

    def add(self, passed: Sequence[Message], owners: Offsets) -> None:  # noqa: ARG002, D102 (see SideTopicWriter)
        self._offsets.append(owners & _OFFSETS if self._origins is None else owners)

    def records(self, written: OffsetRange) -> list[SideRecord]:  # noqa: D102
        offsets = np.concatenate(self._offsets)
        table = ""
        if self._origins is not None:
            offsets, named = self._origins.narrowed(offsets)
            table = named.text
        values = encode_entries(written.low, offsets, self._input_topic, table)
        return [SideRecord(self._topic, self._key, value) for value in values]

    def clear(self) -> None:  # noqa: D102
        self._offsets.clear()


class OwnerLogReader:
    """Reads the owner log, for ascending offsets of the output.

    `reader` is at the estimated start of the entries that are needed; the topic ends at `end`. `rewind` moves the
    reader to the topic's first entry, in case they start earlier: the time at which an id was seen is not the time of
    its entry. It is None if the reader is at the first entry already. Entries of another input topic than `input_topic`
    are skipped; `unlabelled` is the topic of entries that name none. Behind routers `origins` get the places that
    entries name. `on_read` is called after each read. Where the log is still written, `find_end` finds its new end,
    which is after all that is in it now: a transaction that readers of the output see may still be open here, because
    Kafka ends it in one partition after the other.
    """

    def __init__(
        self,
        reader: Reader,
        end: int,
        output_topic_id: str,
        *,
        rewind: Callable[[], None] | None,
        input_topic: str = "",
        unlabelled: str = "",
        origins: Origins | None = None,
        on_read: Callable[[], None] = lambda: None,
        find_end: Callable[[], int] | None = None,
    ) -> None:
        self._find_end = find_end
        self._origins = origins
        self._input_topic = input_topic
        self._unlabelled = unlabelled
        self._on_read = on_read
        self._reader = reader
        self._end = end
        self._rewind = rewind
        self._key = output_topic_id.encode()
        self._position = 0
        self._waiting: deque[OwnerEntry] = deque()

    @property
    def is_routed(self) -> bool:
        """Return whether what it reads are whole owners, not offsets of one partition."""
        return self._origins is not None

    def inputs(self, outputs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the input offset of each output record; -1 without an entry.

        Behind routers it is a whole owner. `outputs` are ascending.

        Raises StreamError.
        """
        found = np.full(len(outputs), _UNKNOWN)
        if not len(outputs):
            return found
        self._read_beyond(int(outputs[-1]))
        if self._rewind and not (self._waiting and self._waiting[0].first_output <= outputs[0]):
            self._rewind()
            self._position = 0
            self._waiting.clear()
            self._read_beyond(int(outputs[-1]))
        self._rewind = None
        while self._waiting and self._waiting[0].end <= outputs[0]:
            self._waiting.popleft()
        for first, inputs, topic, _ in self._waiting:
            if (topic or self._unlabelled) != self._input_topic:
                continue
            at = outputs - first
            here = (at >= 0) & (at < len(inputs))
            found[here] = inputs[at[here]].astype(np.int64)
        return found

    def _read_beyond(self, output: int) -> None:
        """Read until every entry about outputs up to this one is in memory."""
        while not (self._waiting and self._waiting[-1].first_output > output) and self._is_behind(
            output
        ):
            batch = self._reader.read(_ENTRIES_AT_ONCE, _WAIT_SECONDS)
            self._on_read()
            self._reader.check(self._end)
            self._position = batch.next_offset
            for record in batch.records:
                if record.key() == self._key:
                    self._take(record)

    def _is_behind(self, output: int) -> bool:
        """Return whether there is more to read, also new entries for this output."""
        has_entry = self._waiting and self._waiting[-1].end > output
        if self._position >= self._end and self._find_end is not None and not has_entry:
            self._end = max(self._end, self._find_end())
        return self._position < self._end

    def _take(self, record: Message) -> None:
        try:
            entry = decode_entry(record.value() or b"")
            if self._origins is not None:
                if not entry.origins:
                    return  # of the time before routers: offsets of another topic
                inputs = self._origins.adopted(entry.inputs, Origins(entry.origins))
                entry = entry._replace(inputs=inputs)
            self._waiting.append(entry)
        except (
            ValueError
        ) as error:  # only the owners of this transaction's records are unknown then
            log.warning("entry of the owner log skipped", offset=record.offset(), error=str(error))


class OutputValues:
    """The values that the store keeps of output records, in a layout.

    Content and timestamp are those of the record. The owner is from `owner_log`, and unknown without one.
    """

    def __init__(
        self, layout: ValueLayout, *, partition: int, owner_log: OwnerLogReader | None
    ) -> None:
        self.layout = layout
        self._partition = partition
        self._owner_log = owner_log

    @property
    def tells_something(self) -> bool:
        """Return whether a value is more than an unknown owner."""
        return self._owner_log is not None or self.layout != ValueLayout()

    def values(self, records: Sequence[Message], rows: Rows, times: Times) -> Values:
        """Return the values of `rows` (n,) of a batch of output records: shape (n,).

        `times` are their timestamps.
        """
        if self._owner_log is None:
            owners = unknown_owners(len(rows))
        else:
            outputs = np.fromiter(map(Message.offset, records), np.int64, len(records))
            inputs = self._owner_log.inputs(outputs)[rows]
            known = inputs.astype(np.uint64)
            owners = (
                owners_of(known)
                if self._owner_log.is_routed
                else encode_owners(self._partition, known & _OFFSETS)
            )
            owners[inputs == _UNKNOWN] = np.frombuffer(UNKNOWN_OWNER, OWNER)[0]
        return self.layout.encode(owners, records, rows, times)
