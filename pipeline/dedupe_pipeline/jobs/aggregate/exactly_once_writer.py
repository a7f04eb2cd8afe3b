"""Write batches to a table: one locked connection, one transaction a batch.

The job calls it. Invariant: a batch is added in one transaction with the offsets it covers, after a check that the
stored offsets are those from which it was computed. So every repetition (of a task, a batch, a whole run, or after a
connection that broke during a commit) finds out what was added.

The rows of a batch reach this process as Arrow, and PostgreSQL by COPY. Executors cannot share a transaction, so they
would need a table outside of it that must be cleaned up. And there are at most as many rows as the batch has records,
times the windows of one record.
"""

import io
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Self, TypeVar

import psycopg
import pyarrow as pa
from pyarrow import csv

from dedupe_crds.deadline import Deadline
from dedupe_pipeline.errors import DatabaseFailed, JobRefused, first_line
from dedupe_pipeline.jobs.aggregate import metadata_table
from dedupe_pipeline.jobs.aggregate.increments import Progress
from dedupe_pipeline.jobs.aggregate.lock_holders import describe_holders
from dedupe_pipeline.jobs.aggregate.postgres_connection import Postgres, where
from dedupe_pipeline.jobs.aggregate.sql import TableSql

Answer = TypeVar("Answer")

_LOCKS = 0x6465_6475 << 32  # the upper half of a lock's number; the lower half is the table's oid
_LOCK_POLL_SECONDS = 0.2
# The session ended, or its server was demoted: a new session may succeed.
_RETRIABLE = (
    psycopg.OperationalError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.TransactionTimeout,
)
_RETRY_SECONDS = 0.5
_ROWS_A_WRITE = 50_000
_AS_CSV = csv.WriteOptions(include_header=False, quoting_style="all_valid")  # tells null from ''


class ProgressChanged(Exception):
    """The stored progress is not the one from which a batch was computed."""

    def __init__(self, progress: dict[int, Progress]) -> None:
        super().__init__()
        self.progress = progress


class Database:
    """Adds batches to one table. Use it as a context manager; one thread at a time.

    `patience` limits the wait for an unreachable database, and that for the locks of others, such as that of an ALTER
    TABLE, which are named when it is over. `lock_patience` limits that for another job on the same table,
    which may have been killed just now.
    """

    def __init__(
        self,
        postgres: Postgres,
        table_sql: TableSql,
        *,
        patience: timedelta = timedelta(minutes=2),
        lock_patience: timedelta = timedelta(seconds=30),
        stop: threading.Event | None = None,
    ) -> None:
        self._postgres = postgres
        self._table_sql = table_sql
        self._patience = patience
        self._lock_timeout = f"{max(1, patience // timedelta(milliseconds=1))}ms"  # 0 is none
        self._lock_patience = lock_patience
        self._stop = stop or threading.Event()
        self._connection: psycopg.Connection | None = None
        self._oid = 0

    def __enter__(self) -> Self:
        """Connect, create the tables that are missing, and take the lock.

        Raises:
            DatabaseFailed: the database cannot be reached, or refuses.
            JobRefused: another job adds to the table, or an unsuitable table has its name.
        """
        try:
            self._connection = self._begin()
        except psycopg.Error as error:
            raise DatabaseFailed(f"PostgreSQL: {first_line(error)}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def register(
        self, source: metadata_table.Source, *, skip_deleted: bool = False
    ) -> dict[int, Progress]:
        """Register the job, or check that it is the registered one; return its progress.

        Raises:
            JobRefused, RecordsExpired: see `metadata_table.register`.
            DatabaseFailed: the database refuses.
        """

        def registered(connection: psycopg.Connection) -> dict[int, Progress]:
            metadata_table.register(
                connection, self._table_sql, self._oid, source, skip_deleted=skip_deleted
            )
            return metadata_table.progress(connection, self._table_sql, self._oid)

        return self._with_retries(registered)

    def add(
        self, batch: pa.Table, ends: Mapping[int, int], progress: Mapping[int, Progress]
    ) -> dict[int, Progress]:
        """Add a batch, in the columns of `increments`, that was computed from `progress`.

        `ends` are the batch's end offsets by partition. Returns the new progress.

        Raises:
            ProgressChanged: nothing was added, because the stored progress is different.
            DatabaseFailed: nothing was added, because the database refuses.
            JobRefused: nothing was added, because another table has the name now.
        """
        return self._with_retries(lambda found: self._add(found, batch, ends, progress))

    def _add(
        self,
        connection: psycopg.Connection,
        batch: pa.Table,
        ends: Mapping[int, int],
        progress: Mapping[int, Progress],
    ) -> dict[int, Progress]:
        with connection.transaction():
            # The session's lock excludes other jobs. This lock also excludes a session that lost its lock unnoticed.
            connection.execute(self._table_sql.lock_job(), {"target": self._oid})
            found = metadata_table.progress(connection, self._table_sql, self._oid)
            if found != progress:
                raise ProgressChanged(found)
            self._copy(connection, batch)
            self._add_rows(connection)
            # Not earlier: the rows' table is locked now, so it cannot be renamed before the commit.
            metadata_table.check_same_table(connection, self._table_sql, self._oid)
            return self._write_down(connection, ends)

    def _copy(self, connection: psycopg.Connection, batch: pa.Table) -> None:
        with connection.cursor() as cursor, cursor.copy(self._table_sql.copy()) as copy:
            for rows in batch.to_batches(max_chunksize=_ROWS_A_WRITE):
                text = io.BytesIO()
                csv.write_csv(rows, text, _AS_CSV)
                copy.write(text.getvalue())

    def _add_rows(self, connection: psycopg.Connection) -> None:
        connection.execute(self._table_sql.add())

    def _write_down(
        self, connection: psycopg.Connection, ends: Mapping[int, int]
    ) -> dict[int, Progress]:
        connection.execute(self._table_sql.record_offsets(), {"target": self._oid})
        connection.execute(
            self._table_sql.advance_offsets(),
            {"target": self._oid, "partitions": list(ends.keys()), "ends": list(ends.values())},
        )
        return metadata_table.progress(connection, self._table_sql, self._oid)

    # -- the connection ----------------------------------------------------------------------------

    def _with_retries(self, action: Callable[[psycopg.Connection], Answer]) -> Answer:
        """Run an action on the locked connection; retry on a new one if that breaks."""
        deadline: Deadline | None = None
        while True:
            try:
                if self._connection is None:
                    self._connection = self._begin()
                with self._holders_named(self._connection):
                    return action(self._connection)
            except _RETRIABLE as error:
                self._drop()
                deadline = deadline or Deadline(
                    self._patience.total_seconds(), wait=self._stop.wait
                )
                if not deadline.pause(_RETRY_SECONDS):
                    raise DatabaseFailed(
                        f"PostgreSQL: {first_line(error)}; the next run of the job adds what was "
                        "not added yet"
                    ) from error
            except psycopg.Error as error:
                raise DatabaseFailed(
                    f"PostgreSQL refuses a batch for {self._table_sql.table}: {first_line(error)}; nothing "
                    "of it was added"
                ) from error

    def _begin(self) -> psycopg.Connection:
        connection = self._postgres.connect()
        try:
            connection.execute(
                "SELECT set_config('lock_timeout', %s, false)", (self._lock_timeout,)
            )
            with self._holders_named(connection):
                self._oid = metadata_table.create_tables(
                    connection, self._table_sql, known=self._oid or None
                )
            self._lock(connection)
            connection.execute(self._table_sql.create_staging())
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _holders_named(self, connection: psycopg.Connection) -> Iterator[None]:
        """Say who holds a lock for which a statement waited longer than `patience`."""
        try:
            yield
        except psycopg.errors.LockNotAvailable as error:
            holders = describe_holders(connection, self._table_sql.tables())
            raise DatabaseFailed(
                f"PostgreSQL gave no lock for {self._table_sql.table} within {self._patience.total_seconds():g} s, and "
                f"nothing of the batch was added. {holders}. The next run of the job continues there"
            ) from error

    def _lock(self, connection: psycopg.Connection) -> None:
        query = "SELECT pg_try_advisory_lock(%s)"

        def locked() -> bool:
            return connection.execute(query, (_LOCKS | self._oid,)).fetchone() == (True,)

        deadline = Deadline(self._lock_patience.total_seconds(), wait=self._stop.wait)
        if not deadline.wait_for(locked, poll_seconds=_LOCK_POLL_SECONDS):
            raise JobRefused(
                f"another job adds to {self._table_sql.table} in {where(connection)}"
                f"{self._holder(connection)}; let it finish or stop it first"
            )

    def _holder(self, connection: psycopg.Connection) -> str:
        row = connection.execute(
            "SELECT a.pid, coalesce(a.client_addr::text, 'this host'), a.backend_start FROM pg_locks l "
            "JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted AND "
            "l.classid = %s AND l.objid = %s AND l.database = (SELECT oid FROM pg_database WHERE "
            "datname = current_database())",
            (_LOCKS >> 32, self._oid),
        ).fetchone()
        return f" (session {row[0]} from {row[1]}, since {row[2]:%F %T} UTC)" if row else ""

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
