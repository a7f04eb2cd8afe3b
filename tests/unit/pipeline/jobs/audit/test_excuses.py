"""The number of records that a table of fixed size may forget."""

from dedupe_pipeline.jobs.audit.excuses import most_forgotten


def test_a_table_forgets_as_many_as_its_size_says_and_no_more() -> None:
    assert most_forgotten(0.001) == 2
    assert 1_000 < most_forgotten(1_000) < 1_200
