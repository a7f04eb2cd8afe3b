"""What the notes beside the output say of owners."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.side_topics.owner_log import decode_entry, encode_entries

inputs = st.lists(st.integers(0, 2**48 - 2), min_size=1, max_size=300, unique=True).map(sorted)


@given(st.integers(0, 2**62), inputs)
def test_a_chunk_is_read_as_it_was_written(first_output: int, offsets: list[int]) -> None:
    [note] = encode_entries(first_output, np.array(offsets, np.uint64))
    first, found, *_ = decode_entry(note)
    assert (first, found.tolist()) == (first_output, offsets)


def test_a_chunk_of_many_runs_takes_several_notes_that_continue_each_other() -> None:
    offsets = np.arange(0, 200_000, 2, dtype=np.uint64)
    notes = list(encode_entries(1000, offsets))
    assert len(notes) > 1
    assert max(map(len, notes)) < 100_000
    position, found = 1000, []
    for note in notes:
        first, part, *_ = decode_entry(note)
        assert first == position
        position += len(part)
        found += part.tolist()
    assert found == offsets.tolist()


def test_a_chunk_without_duplicates_takes_a_few_bytes() -> None:
    [note] = encode_entries(7, np.arange(5, 100_005, dtype=np.uint64))
    assert len(note) < 40


def test_an_entry_names_the_input_topic_and_is_read_by_releases_that_do_not_know_of_it() -> None:
    inputs = np.arange(9, dtype=np.uint64)
    [named], [unnamed] = encode_entries(7, inputs, "aW5/dXQtMQ+w"), encode_entries(7, inputs)
    assert decode_entry(named).input_topic == "aW5/dXQtMQ+w"
    assert not decode_entry(unnamed).input_topic
    # Those read everything after the head by this call.
    assert zlib.decompress(named[9:]) == zlib.decompress(unnamed[9:])


@pytest.mark.parametrize(
    "damage", [lambda note: note[:-1], lambda _: b"", lambda note: b"\2" + note[1:]]
)
def test_damage_is_told(damage: object) -> None:
    [note] = encode_entries(7, np.arange(9, dtype=np.uint64))
    with pytest.raises(ValueError, match="entry of the owner log"):
        decode_entry(damage(note))  # type: ignore[operator] # one of the functions above


OF_ROUTED_RECORDS = bytes.fromhex(
    "01000000000000002878016367000166062630cdc0c008a639a13403032b8a3803030003c8001e746f7069632d"
    "69640a6f72646572733a302b382c72657475726e733a302b38"
)
"""What this release writes of the owners below; later ones must read it."""


def test_owners_of_routed_records_come_with_the_names_of_their_places() -> None:
    owners = np.array([3 << 48 | 7, 3 << 48 | 8, 9 << 48 | 1, 5], np.uint64)
    [note] = encode_entries(40, owners, "topic-id", "orders:0+8,returns:0+8")
    for written in (note, OF_ROUTED_RECORDS):
        entry = decode_entry(written)
        assert (entry.first_output, entry.inputs.tolist()) == (40, owners.tolist())
        assert (entry.input_topic, entry.origins) == ("topic-id", "orders:0+8,returns:0+8")
