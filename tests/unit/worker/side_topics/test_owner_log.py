"""Owners of output records, read from the notes in step with the output."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.origins import Origins
from dedupe_worker.side_topics.owner_log import (
    OutputValues,
    OwnerLogReader,
    OwnerLogWriter,
    encode_entries,
)
from dedupe_worker.values import OWNER_BYTES, ValueLayout, decode_owner, timestamp_of
from tests.unit.worker.strategies import message

TOPIC_ID = "the-output"


@dataclass
class NotesReader:
    """A reader over notes that were written, one offset each, with a marker after each."""

    topic = "clean-owners"
    records: Sequence[tuple[bytes, bytes]]
    position: int = 0

    def read(self, max_records: int, _wait_seconds: float) -> Batch:
        records = [message(0, *one) for one in self.records[self.position :][:max_records]]
        self.position += len(records)
        return Batch(records, 2 * self.position, 0)

    def check(self, end: int) -> None:
        assert end == 2 * len(self.records)

    def rewind(self) -> None:
        self.position = 0


def notes(written: Sequence[tuple[bytes, bytes]], start: int = 0) -> OwnerLogReader:
    reader = NotesReader(written, start)
    rewind = reader.rewind if start else None
    return OwnerLogReader(reader, 2 * len(written), TOPIC_ID, rewind=rewind)


chunks = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(1, 5), min_size=1, max_size=9)), max_size=30
)


@given(chunks, st.integers(1, 7), st.data())
def test_each_output_record_gets_the_input_offset_it_was_noted_with(
    drawn: list[tuple[int, list[int]]], batch: int, data: st.DataObject
) -> None:
    """Chunks with gaps between them, and some without a note, read in batches of any size from anywhere."""
    written, expected, output, source = [], {}, 0, 0
    for gap, steps in drawn:
        output += gap
        offsets = source + np.cumsum(steps)
        source = int(offsets[-1])
        noted = data.draw(st.booleans())
        if noted:
            written += [
                (TOPIC_ID.encode(), note)
                for note in encode_entries(output, offsets.astype(np.uint64))
            ]
        for offset in offsets.tolist():
            expected[output] = offset if noted else -1
            output += 1
    start = data.draw(st.integers(0, len(written)))
    reading, outputs = notes(written, start), sorted(expected)
    found: list[int] = []
    for at in range(0, len(outputs), batch):
        found += reading.inputs(np.array(outputs[at : at + batch])).tolist()
    assert found == [expected[output] for output in outputs]


def test_notes_about_another_topic_and_unreadable_ones_are_passed_over() -> None:
    [right] = encode_entries(0, np.array([5], np.uint64))
    [wrong] = encode_entries(0, np.array([77], np.uint64))
    reading = notes([(b"before", wrong), (TOPIC_ID.encode(), b"?"), (TOPIC_ID.encode(), right)])
    assert reading.inputs(np.array([0])).tolist() == [5]


@pytest.mark.parametrize(
    ("named", "unlabelled", "known"),
    [
        ("now", "", True),
        ("before", "now", False),
        ("", "now", True),  # an entry of an earlier release
        ("", "", False),
    ],
)
def test_owners_of_another_input_topic_are_unknown(
    named: str, unlabelled: str, *, known: bool
) -> None:
    [note] = encode_entries(3, np.array([40], np.uint64), named)
    reader = NotesReader([(TOPIC_ID.encode(), note)])
    reading = OwnerLogReader(
        reader, 2, TOPIC_ID, rewind=None, input_topic="now", unlabelled=unlabelled
    )
    assert reading.inputs(np.array([3])).tolist() == [40 if known else -1]


@pytest.mark.parametrize(("now", "known"), [("first", True), ("second", False)])
def test_entries_are_known_as_of_the_input_topic_that_they_were_written_for(
    now: str, *, known: bool
) -> None:
    writer = OwnerLogWriter("clean-owners", TOPIC_ID, "first")
    writer.add([], np.array([40, 41], np.uint64))
    records = writer.records(OffsetRange(3, 5))
    reader = NotesReader([(each.key or b"", each.value) for each in records])
    reading = OwnerLogReader(reader, 2, TOPIC_ID, rewind=None, input_topic=now)
    assert reading.inputs(np.array([3, 4])).tolist() == ([40, 41] if known else [-1, -1])


def test_behind_routers_entries_of_the_time_before_are_passed_over_in_silence() -> None:
    """A stream that got routers has as many of them as it had transactions."""
    origins = Origins()
    number = origins.number_of(("orders", 1))
    [direct] = encode_entries(0, np.array([5], np.uint64), "In1")
    owner = np.array([number << 48 | 7], np.uint64)
    [routed] = encode_entries(1, owner, "Btw1", origins.text)
    key = TOPIC_ID.encode()
    reader = NotesReader([(key, direct), (key, routed)])
    reading = OwnerLogReader(
        reader, 4, TOPIC_ID, rewind=None, input_topic="Btw1", unlabelled="Btw1", origins=origins
    )
    with capture_logs() as logged:
        assert reading.inputs(np.array([0, 1])).tolist() == [-1, int(owner[0])]
    assert not logged


def test_a_log_that_is_still_written_is_asked_for_its_end_while_an_output_has_no_entry() -> None:
    entries = [encode_entries(at, np.array([40 + at], np.uint64)) for at in (3, 4)]
    written = [(TOPIC_ID.encode(), note) for [note] in entries]
    reader, asked = NotesReader(written[:1]), [0]

    def find_end() -> int:
        """Wait for the transaction whose records are in the output already."""
        asked[0] += 1
        reader.records = written
        return 4

    reading = OwnerLogReader(reader, 2, TOPIC_ID, rewind=None, find_end=find_end)
    assert (reading.inputs(np.array([3])).tolist(), asked) == ([43], [0])
    assert (reading.inputs(np.array([4])).tolist(), asked) == ([44], [1])


def test_what_is_remembered_of_an_output_record_is_what_the_loop_would_remember() -> None:
    records = [message(3, b"a", b"1"), message(4, b"b", b"2")]
    [note] = encode_entries(3, np.array([40], np.uint64))
    recall = OutputValues(
        ValueLayout(timed=True), partition=9, owner_log=notes([(TOPIC_ID.encode(), note)])
    )
    values = recall.values(records, np.arange(2), np.array([1000, -7]))
    told = [(decode_owner(value[:OWNER_BYTES]), timestamp_of(value)) for value in values.tolist()]
    assert told == [((9, 40), 1000), (None, -7)]


def test_each_read_is_reported() -> None:
    """A log that was written for weeks takes minutes to read up to the first entry that is needed."""
    [note] = encode_entries(900, np.arange(3, dtype=np.uint64))
    written = [(b"another topic", note)] * 79 + [(TOPIC_ID.encode(), note)]
    reports: list[None] = []
    reading = OwnerLogReader(
        NotesReader(written), 160, TOPIC_ID, rewind=None, on_read=lambda: reports.append(None)
    )
    assert reading.inputs(np.array([900])).tolist() == [0]
    assert len(reports) == 10
