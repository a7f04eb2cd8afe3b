"""The options of a table."""

from dedupe_pipeline.jobs.land.table_job import TableOptions


def test_a_bare_text_is_one_partition() -> None:
    assert list(TableOptions(partition_by="country").partitions) == ["country"]
    assert list(TableOptions(partition_by=("country", "city")).partitions) == ["country", "city"]
    assert list(TableOptions().partitions) == []
