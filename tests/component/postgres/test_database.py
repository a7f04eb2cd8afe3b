"""The table writer on a real PostgreSQL, with constructed batches."""

import threading
import time
from datetime import UTC, datetime, timedelta

import psycopg
import pyarrow as pa
import pytest

from dedupe_kafka.errors import RecordsExpired
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.errors import JobRefused
from dedupe_pipeline.jobs.aggregate import Postgres
from dedupe_pipeline.jobs.aggregate.columns import Shape
from dedupe_pipeline.jobs.aggregate.exactly_once_writer import Database
from dedupe_pipeline.jobs.aggregate.increments import Progress
from dedupe_pipeline.jobs.aggregate.metadata_table import Source
from dedupe_pipeline.jobs.aggregate.sql import TableSql
from tests.support.postgres.aggregate_truth import job
from tests.support.postgres.server import TestDatabase, database, postgres_server
from tests.support.processes.processes import wait_for

__all__ = ["database", "postgres_server"]

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
SHAPE = Shape(schema=None, keys={"carrier": "text"}, measures={"flights": "bigint"})
BATCH = {0: 1}
"""The ends of the only batch that is added here."""
NOTHING = {0: Progress(next_offset=0)}


def layout(watermark: str | None = None) -> TableSql:
    return TableSql.of(job("flights", watermark=watermark, measures={"flights": "count(*)"}), SHAPE)


def source(**starts: int) -> Source:
    """Return a source whose partitions `p0`, … begin at these offsets."""
    at = {int(name[1:]): start for name, start in starts.items()}
    offsets = TopicOffsets(topic="clean", id="clean-id", lows=at, ends=dict.fromkeys(at, 100))
    return Source(topic_id="one", offsets=offsets, definition=job("flights").definition())


def batch(carrier: str = "UA") -> pa.Table:
    """Return a record at offset 0, in the columns of `increments`."""
    time_type = pa.timestamp("us", "UTC")
    columns = {
        "_partition": pa.array([0]),
        "_fate": pa.array(["counted"]),
        "_window": pa.array([NOON], time_type),
        "carrier": pa.array([carrier]),
        "flights": pa.array([1]),
        "_records": pa.array([1]),
        "_additions": pa.array([1]),
        "_first": pa.array([0]),
        "_last": pa.array([0]),
        "_newest": pa.array([NOON], time_type),
    }
    return pa.table(columns)


def cut_off(database: TestDatabase) -> None:
    """End the sessions of jobs, as a server does at its shutdown."""
    database.rows(
        "SELECT pg_terminate_backend(pid, 10_000) FROM pg_stat_activity WHERE datname = "
        "current_database() AND application_name = 'dedupe-pipeline aggregate'"
    )


@pytest.mark.parametrize("is_cut_off", [False, True], ids=["connected", "cut off"])
def test_a_job_does_not_add_to_a_table_that_took_the_name_of_its_own(
    database: TestDatabase, *, is_cut_off: bool
) -> None:
    with Database(database.postgres, layout()) as first:
        first.register(source(p0=0))
        database.run("ALTER TABLE flights RENAME TO old")
        with Database(database.postgres, layout()) as second:
            second.register(source(p0=0))
        if is_cut_off:
            cut_off(database)

        with pytest.raises(JobRefused, match=r"flights in .* is no longer the table .*was renamed"):
            first.add(batch(), BATCH, NOTHING)

    assert database.rows("SELECT FROM flights UNION ALL SELECT FROM old") == []


def test_a_job_that_was_cut_off_does_not_make_its_table_again(database: TestDatabase) -> None:
    with Database(database.postgres, layout()) as renamed:
        renamed.register(source(p0=0))
        database.run("ALTER TABLE flights RENAME TO old")
        cut_off(database)

        with pytest.raises(JobRefused, match="is no longer the table"):
            renamed.add(batch(), BATCH, NOTHING)

    assert not database.has("flights")


def test_a_view_of_another_table_is_not_taken_for_that_of_final_rows(
    database: TestDatabase,
) -> None:
    with Database(database.postgres, layout(watermark="1h")):
        database.run("ALTER TABLE flights RENAME TO old")

    with pytest.raises(JobRefused, match=r"flights_final in .* is not a view of flights,.*drop it"):
        Database(database.postgres, layout(watermark="1h")).__enter__()
    assert not database.has("flights")
    database.run("ALTER VIEW flights_final RENAME TO old_final")
    for _ in range(2):
        with Database(database.postgres, layout(watermark="1h")):
            assert database.has("flights_final")


def test_records_of_a_new_partition_that_expired_before_they_were_counted_are_told(
    database: TestDatabase,
) -> None:
    skipped = (
        "SELECT first_offset, next_offset, skipped FROM dedupestream_offsets ORDER BY partition"
    )
    with Database(database.postgres, layout()) as counting:
        counting.register(source(p0=5))
        assert database.rows(skipped) == [(5, 5, 0)], "a new job begins where the topic does"

        counting.register(source(p0=5, p1=0))
        with pytest.raises(
            RecordsExpired, match="partition 2: flights is counted to before offset 0"
        ):
            counting.register(source(p0=5, p1=0, p2=7))
        counting.register(source(p0=5, p1=0, p2=7), skip_deleted=True)

    assert database.rows(skipped) == [(5, 5, 0), (0, 0, 0), (7, 7, 7)]


@pytest.mark.parametrize("by", ["environment", "properties"])
def test_text_arrives_as_it_is_whatever_encoding_is_asked_for(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    properties = {"client_encoding": "LATIN1"} if by == "properties" else {}
    with monkeypatch.context() as patched:
        if by == "environment":
            patched.setenv("PGCLIENTENCODING", "LATIN1")
        with Database(Postgres.of(database.url, properties), layout()) as counting:
            counting.register(source(p0=0))
            counting.add(batch("Ü ☂"), BATCH, NOTHING)

    assert database.rows("SELECT carrier FROM flights") == [("Ü ☂",)]


def test_a_server_that_only_reads_for_a_while_is_waited_for(database: TestDatabase) -> None:
    """A demoted server is read-only until its name resolves to its successor."""
    settings = psycopg.connect(database.server.url, autocommit=True)
    only_reads = f"ALTER DATABASE {database.name} SET default_transaction_read_only = on"
    writes = f"ALTER DATABASE {database.name} RESET default_transaction_read_only"
    added: list[object] = []
    with settings, Database(database.postgres, layout()) as counting:
        counting.register(source(p0=0))
        settings.execute(only_reads.encode())
        cut_off(database)
        adding = threading.Thread(
            target=lambda: added.append(counting.add(batch(), BATCH, NOTHING))
        )
        adding.start()
        log = database.server.log_path
        wait_for(
            lambda: "in a read-only transaction" in log.read_text(errors="replace"),
            "it was refused",
        )
        settings.execute(writes.encode())
        adding.join(120)

    assert added
    assert database.rows("SELECT flights FROM flights") == [(1,)]


def test_a_session_that_was_ended_for_standing_still_is_replaced(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens if the process is suspended in the middle of a transaction."""
    timeout = "idle_in_transaction_session_timeout"
    copy, calls = Database._copy, []  # noqa: SLF001

    def slow_at_first(self: Database, connection: psycopg.Connection, *given: object) -> None:
        calls.append(given)
        if len(calls) == 1:
            shown = connection.execute(f"SHOW {timeout}".encode()).fetchone()
            assert shown == ("1min",), "the product limits it"
            connection.execute(f"SET {timeout} = '100ms'".encode())
            time.sleep(1)
        copy(self, connection, *given)

    monkeypatch.setattr(Database, "_copy", slow_at_first)
    with Database(database.postgres, layout()) as counting:
        counting.register(source(p0=0))
        counting.add(batch(), BATCH, NOTHING)

    assert len(calls) == 2
    assert database.rows("SELECT flights FROM flights") == [(1,)]


def test_the_patience_of_a_job_begins_when_something_fails(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that takes long, and is then cut off, does not count as a failure."""
    add_rows, calls = Database._add_rows, []  # noqa: SLF001 # the seam

    def long_and_cut_off(self: Database, connection: psycopg.Connection) -> None:
        calls.append(connection)
        if len(calls) == 1:
            time.sleep(1)
            connection.close()
        add_rows(self, connection)

    monkeypatch.setattr(Database, "_add_rows", long_and_cut_off)
    with Database(database.postgres, layout(), patience=timedelta(seconds=0.8)) as counting:
        counting.register(source(p0=0))
        counting.add(batch(), BATCH, NOTHING)

    assert len(calls) == 2
