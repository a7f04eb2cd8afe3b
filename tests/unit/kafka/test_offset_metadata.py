"""The metadata of a worker's input offset, of this release and of those before it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_kafka.offset_metadata import (
    Cut,
    OffsetMetadata,
    decode_metadata,
    encode_metadata,
    split_token,
    with_token,
)

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
    ],
)
def test_the_metadata_of_every_release_is_read(text: str, known: OffsetMetadata) -> None:
    assert decode_metadata(text) == known


@pytest.mark.parametrize("passed", ["", "2", "2-", "-40", "-", "a-b", "2-40-1", "²-40", "2.40"])
def test_a_cut_of_another_form_is_not_known_and_the_rest_is(passed: str) -> None:
    assert decode_metadata(f"Ab1:7:In1:{passed}") == OffsetMetadata("Ab1", 7, "In1")


@pytest.mark.parametrize("text", [None, "", "Ab1", "a user's note", "Ab1:7:In1:2-40:more"])
def test_metadata_of_another_form_says_nothing(text: str | None) -> None:
    assert decode_metadata(text) == OffsetMetadata()


@pytest.mark.parametrize("position", ["x", "-1", "7.5", " 7", "\u0667"])
def test_a_position_that_is_no_number_is_not_known(position: str) -> None:
    assert decode_metadata(f"Ab1:{position}:In1") == OffsetMetadata("Ab1", None, "In1")
