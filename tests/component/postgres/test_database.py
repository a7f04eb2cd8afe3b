"""The table writer on a real PostgreSQL, with constructed batches."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pyarrow as pa
import pytest

from dedupe_kafka.errors import RecordsExpired
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.errors import DatabaseFailed, JobRefused
from dedupe_pipeline.jobs.aggregate import Postgres
from dedupe_pipeline.jobs.aggregate.columns import Shape
from dedupe_pipeline.jobs.aggregate.exactly_once_writer import Database
from dedupe_pipeline.jobs.aggregate.increments import Progress
from dedupe_pipeline.jobs.aggregate.metadata_table import Source
from dedupe_pipeline.jobs.aggregate.sql import TableSql
from tests.support.layers import matrix
from tests.support.patience import wait_for
from tests.support.postgres.aggregate_truth import job
from tests.support.postgres.server import TestDatabase, database, postgres_server
from tests.support.postgres.vanishing import VanishingHost

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


NOTICED = "within 2 minutes"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("options", "both_sides"),
    [({"tcp_user_timeout": "1500"}, False), matrix({}, True)],
    ids=["soon, by option", NOTICED],
)
def test_a_host_that_vanishes_in_the_middle_of_a_copy_is_noticed(
    database: TestDatabase, options: dict[str, str], both_sides: bool
) -> None:
    """By default TCP sends data that nobody acknowledges again and again for 15 minutes."""
    info = psycopg.conninfo.conninfo_to_dict(database.url)
    server, added = (str(info["host"]), int(str(info["port"]))), []
    many = batch("first").take([0] * 50_000)
    rows = pa.concat_tables(
        [batch("last"), many]
    )  # more than the kernel buffers: some are not sent yet
    with VanishingHost(server, at=b'"last"', both_sides=both_sides) as host:
        there = {"host": "127.0.0.1", "port": str(host.port), "sslmode": "disable", **options}
        with Database(Postgres.of(database.url, there), layout()) as counting:
            counting.register(source(p0=0))
            adding = threading.Thread(
                target=lambda: added.append(counting.add(rows, BATCH, NOTHING)), daemon=True
            )
            adding.start()
            adding.join(120 if both_sides else 30)
            assert host.has_vanished
            assert added, "it still waits for the host that vanished"

    flights = database.rows("SELECT carrier, flights FROM flights ORDER BY 1")
    assert flights == [("first", 50_000), ("last", 1)]


def test_both_sides_notice_that_the_other_is_gone(database: TestDatabase) -> None:
    """The client within 2 minutes, the server before the next run gives up to wait for its lock."""
    with database.postgres.connect() as connection:
        with socket.socket(fileno=connection.fileno()) as used:
            timeout_ms = used.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            used.detach()
        of_server = connection.execute("SHOW tcp_user_timeout").fetchone()

    assert timeout_ms == 60_000
    assert of_server == ("25000",)  # in ms


@contextmanager
def transaction(database: TestDatabase, *statements: str) -> Iterator[int]:
    """Hold what these statements lock, in a session of another program; yield its pid."""
    with psycopg.connect(database.url, application_name="other") as other:
        for statement in statements:
            other.execute(statement.encode())
        yield other.info.backend_pid
        other.rollback()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE flights ADD COLUMN note text",
        "CREATE INDEX by_flights ON flights (flights)",
        "UPDATE dedupestream_jobs SET topic = topic",
    ],
)
def test_a_session_that_holds_the_table_is_named(database: TestDatabase, statement: str) -> None:
    with Database(database.postgres, layout(), patience=timedelta(seconds=0.5)) as counting:
        counting.register(source(p0=0))
        with transaction(database, statement) as pid:
            named = rf"no lock for flights within 0.5 s.* is locked by session {pid} \(.*{re.escape(statement)}"
            with pytest.raises(DatabaseFailed, match=rf"{named}.*pg_terminate_backend\({pid}\)"):
                counting.add(batch(), BATCH, NOTHING)
        assert database.rows("SELECT FROM flights") == []

        counting.add(batch(), BATCH, NOTHING)

    assert database.rows("SELECT flights FROM flights") == [(1,)]


def test_a_session_for_which_an_alter_table_waits_is_named(database: TestDatabase) -> None:
    """It only reads, and the next statement on the table waits all the same."""
    waiting = "SELECT pid FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    altering = threading.Thread(
        target=lambda: database.run("ALTER TABLE flights ADD COLUMN note text")
    )
    with Database(database.postgres, layout(), patience=timedelta(seconds=0.5)) as counting:
        counting.register(source(p0=0))
        with transaction(database, "SELECT FROM flights") as reader:
            altering.start()
            [(alter,)] = wait_for(lambda: database.rows(waiting), "it waits")
            named = rf"flights is awaited by session {alter} .*ALTER TABLE.*waits for session {reader} .*SELECT FROM"
            with pytest.raises(
                DatabaseFailed, match=rf"{named}.*pg_terminate_backend\({reader}\)\. The"
            ):
                counting.add(batch(), BATCH, NOTHING)
        altering.join(30)


def test_a_session_that_keeps_tables_from_being_made_is_named(database: TestDatabase) -> None:
    with Database(database.postgres, layout()):
        pass
    database.run("DROP TABLE dedupestream_offsets")
    with (
        transaction(database, "LOCK TABLE dedupestream_jobs") as pid,
        pytest.raises(DatabaseFailed, match=f"dedupestream_jobs is locked by session {pid} "),
    ):
        Database(database.postgres, layout(), patience=timedelta(seconds=0.5)).__enter__()
