"""The result of job `aggregate` in a database, in the types of `aggregate_truth`."""

from typing import Any, cast

from dedupe_pipeline.jobs.aggregate import AggregateJob
from tests.support.postgres.aggregate_truth import Account, Key, Truth
from tests.support.postgres.server import TestDatabase


def read_table(database: TestDatabase, job: AggregateJob) -> dict[Key, tuple[int | None, ...]]:
    """Read the rows by window and carrier; without a table there are none.

    Raises AssertionError if a row exists twice.
    """
    if not database.has(job.table):
        return {}
    late = "late" if job.counts_late else "0"
    columns = [
        "window_start",
        "window_end",
        "carrier",
        "flights",
        "delayed",
        "total",
        "least",
        "worst",
    ]
    query = f"SELECT {', '.join([*columns, late])} FROM {job.table}"  # noqa: S608 # a test's own names
    found = cast("list[tuple[Any, ...]]", database.rows(query))
    assert all(end - start == job.window for start, end, *_ in found)
    rows = {(start, carrier): tuple(values) for start, _, carrier, *values in found}
    assert len(rows) == len(found)
    return rows


def read_accounts(database: TestDatabase) -> dict[int, Account]:
    """Read the account of each partition that has records."""
    found = cast(
        "list[tuple[Any, ...]]",
        database.rows(
            "SELECT partition, records, counted, late, filtered, unusable, newest "
            "FROM dedupestream_offsets WHERE records > 0"
        ),
    )
    return {partition: Account(*counts) for partition, *counts in found}


def check(database: TestDatabase, job: AggregateJob, expected: Truth) -> None:
    """Assert that the database holds exactly the expected result."""
    found = read_accounts(database), read_table(database, job)
    true = expected.accounts, expected.table(job)
    assert found == true, f"not exactly once: {found}, and true is {true}"
