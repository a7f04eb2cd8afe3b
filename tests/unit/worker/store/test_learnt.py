"""Up to where a store has learnt the ids of other outputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.store.learnt import LearntOutputs

numbers = st.integers(0, 2**63 - 1)
positions = st.dictionaries(st.integers(0, 20), numbers, max_size=5)


@given(st.dictionaries(st.integers(0, 20), positions, max_size=3))
def test_what_a_store_says_is_read(learnt: dict[int, dict[int, int]]) -> None:
    written = LearntOutputs()
    for epoch, there in learnt.items():
        written.advance(epoch, there)
    found = LearntOutputs(written.text)
    assert {epoch: found.of(epoch) for epoch in learnt} == learnt
    assert found.text == written.text


def test_a_store_of_an_earlier_release_has_learnt_nothing() -> None:
    assert LearntOutputs("").of(1) == {}
    assert LearntOutputs().text == ""


def test_positions_are_of_one_epoch_and_advance_partition_by_partition() -> None:
    learnt = LearntOutputs("1/0:7,2/0:9")
    learnt.advance(1, {1: 4})
    learnt.advance(1, {0: 8})
    assert learnt.of(1) == {0: 8, 1: 4}
    assert learnt.of(2) == {0: 9}
    assert learnt.of(3) == {}


def test_the_text_does_not_depend_on_the_order_of_learning() -> None:
    learnt = LearntOutputs()
    for epoch, there in ((2, {10: 1}), (1, {3: 2}), (2, {9: 3})):
        learnt.advance(epoch, there)
    assert learnt.text == "1/3:2,2/9:3,2/10:1"


def test_what_is_returned_is_no_part_of_it() -> None:
    learnt = LearntOutputs("1/0:7")
    learnt.of(1)[0] = 99
    assert learnt.text == "1/0:7"


@pytest.mark.parametrize("text", ["1", "1/0", "1/0:", "1:7", "a/0:7", "1/0:7;1/1:8", "1/0:7,x"])
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        LearntOutputs(text)
