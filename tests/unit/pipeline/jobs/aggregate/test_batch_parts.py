"""A batch is divided where its offsets are, and only for the reason that a smaller one helps against."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.aggregate.batch_parts import first_part, offsets_of, smaller
from dedupe_pipeline.jobs.aggregate.increments import Progress

TOO_LARGE = "Total size of serialized results (1.1 GiB) is bigger than spark.driver.maxResultSize"
OFFSETS = st.dictionaries(st.integers(0, 5), st.integers(0, 50), min_size=1)


@given(OFFSETS, OFFSETS, st.integers(1, 60))
def test_parts_cover_each_offset_once(
    starts: dict[int, int], ends: dict[int, int], most: int
) -> None:
    """Also where the progress is beyond the batch, after a commit whose answer was lost."""
    progress = {number: Progress(next_offset=at) for number, at in starts.items()}
    left, parts = offsets_of(progress, ends), 0

    while (part := first_part(progress, ends, most)) != ends:
        assert part.keys() == ends.keys()
        assert offsets_of(progress, part) == most
        progress |= {number: Progress(next_offset=end) for number, end in part.items()}
        parts += 1
        assert offsets_of(progress, ends) == left - parts * most

    assert offsets_of(progress, part) == left - parts * most <= most


def test_without_a_limit_a_batch_is_one_part() -> None:
    assert first_part({0: Progress(next_offset=4)}, {0: 10, 1: 3}, None) == {0: 10, 1: 3}


def test_a_part_whose_rows_are_too_large_is_halved() -> None:
    assert smaller(ValueError(TOO_LARGE), 5) == 2


def test_a_record_whose_rows_are_too_large_is_told() -> None:
    with pytest.raises(PipelineError, match=r"raise it with --conf spark\.driver"):
        smaller(ValueError(TOO_LARGE), 1)


def test_another_error_is_none_of_size() -> None:
    with pytest.raises(ValueError, match="division by zero"):
        smaller(ValueError("division by zero"), 5)
