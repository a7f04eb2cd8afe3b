"""The metadata of a worker's input offset, of this release and of those before it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_kafka.offset_metadata import (
    Cut,
    OffsetMetadata,
    decode_metadata,
    encode_metadata,
    input_offset,
    split_token,
    with_token,
)
from dedupe_kafka.offsets import LastRead

ids = st.text("abcXYZ019-_", max_size=22)
numbers = st.integers(0, 2**63 - 1)
cuts = st.none() | st.builds(Cut, numbers, numbers)


@given(ids, ids, st.none() | numbers, cuts)
def test_what_a_worker_commits_is_read(
    output: str, given_input: str, position: int | None, cut: Cut | None
) -> None:
    text = encode_metadata(output, given_input, position, cut)
    assert decode_metadata(text) == OffsetMetadata(output, position, given_input, cut)


@given(st.none() | numbers, cuts, st.integers(0, 99), numbers)
def test_a_token_changes_nothing_of_it(
    position: int | None, cut: Cut | None, pod: int, time: int
) -> None:
    text = encode_metadata("Ab1", "In1", position, cut)
    assert split_token(with_token(text, f"{pod}-{time}")) == (text, f"{pod}-{time}")
    assert split_token(text) == (text, None), "a cut is no token"


def test_a_stream_that_has_not_grown_writes_what_it_always_has() -> None:
    assert encode_metadata("Ab1", "In1", 7) == "Ab1:7:In1"
    assert encode_metadata("Ab1", "In1", None) == "Ab1::In1"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Ab1:7", OffsetMetadata("Ab1", 7)),
        ("Ab1:", OffsetMetadata("Ab1")),
        ("Ab1:7:In1", OffsetMetadata("Ab1", 7, "In1")),
        ("Ab1::In1:2-0", OffsetMetadata("Ab1", None, "In1", Cut(2, 0))),
        ("Ab1:7:In1:2-40", OffsetMetadata("Ab1", 7, "In1", Cut(2, 40))),
        ("Ab1:^7:In1:2-40", OffsetMetadata("Ab1", None, "In1", Cut(2, 40), None, 7)),
        ("Ab1:7:In1:~57", OffsetMetadata("Ab1", 7, "In1", None, 57)),
        ("Ab1:7:In1:2-40~57", OffsetMetadata("Ab1", 7, "In1", Cut(2, 40), 57)),
    ],
)
def test_the_metadata_of_every_release_is_read(text: str, known: OffsetMetadata) -> None:
    assert decode_metadata(text) == known


@pytest.mark.parametrize(
    ("metadata", "read", "committed"),
    [
        ("Ab1::In1", LastRead(), ("Ab1::In1", None)),
        ("Ab1::In1", LastRead(60, 4), ("Ab1::In1", 4)),
        ("Ab1::In1", LastRead(80, 4), ("Ab1::In1", 4)),  # it has read ahead
        ("Ab1::In1", LastRead(57, 4), ("Ab1::In1:~57", 4)),
        ("Ab1::In1:2-40", LastRead(57, 4), ("Ab1::In1:2-40~57", 4)),
        ("Ab1::In1:2-40~57", LastRead(58, 5), ("Ab1::In1:2-40~58", 5)),
        ("Ab1::In1:~57", LastRead(60, 5), ("Ab1::In1", 5)),
        ("Ab1::In1:~57", LastRead(), ("Ab1::In1", None)),
        (
            "set by hand",
            LastRead(57, 4),
            ("set by hand", None),
        ),  # the epoch would be of another offset
        ("set by hand", LastRead(60, 4), ("set by hand", 4)),
    ],
)
def test_an_offset_goes_with_the_last_record_before_it(
    metadata: str, read: LastRead, committed: tuple[str, int | None]
) -> None:
    found = input_offset(("in", 0), 60, metadata, read)
    assert (found.metadata, found.leader_epoch) == committed
    token = input_offset(
        ("in", 0), 60, metadata, read, add_token=lambda text: with_token(text, "3-17")
    )
    assert split_token(token.metadata) == (committed[0], "3-17")


@pytest.mark.parametrize("passed", ["", "2", "2-", "-40", "-", "a-b", "2-40-1", "²-40", "2.40"])
def test_a_cut_of_another_form_is_not_known_and_the_rest_is(passed: str) -> None:
    assert decode_metadata(f"Ab1:7:In1:{passed}") == OffsetMetadata("Ab1", 7, "In1")


@pytest.mark.parametrize("text", [None, "", "Ab1", "a user's note", "Ab1:7:In1:2-40:more"])
def test_metadata_of_another_form_says_nothing(text: str | None) -> None:
    assert decode_metadata(text) == OffsetMetadata()


@pytest.mark.parametrize("position", ["x", "-1", "7.5", " 7", "\u0667"])
def test_a_position_that_is_no_number_is_not_known(position: str) -> None:
    assert decode_metadata(f"Ab1:{position}:In1") == OffsetMetadata("Ab1", None, "In1")
