"""The one writer of a table: a connection that holds its lock, and one transaction for each batch.

A batch is added in one transaction with the offsets it covers, after a look at whether the offsets
are still those that it was computed from. So whatever comes back (a task, a batch, a whole run; a
connection that broke in the middle of a commit) finds out what has been added.

What a batch adds comes to this process as Arrow and goes on by COPY. Executors can't share a
transaction, so they would have to leave it in a table outside of it, and somebody to clean that up;
while it is never more rows than the batch has records, times the windows of one record.
"""

import io
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Self, TypeVar

import psycopg
import pyarrow as pa
from pyarrow import csv

from dedupe_pipeline.errors import DatabaseFailed, JobRefused
from dedupe_pipeline.jobs.aggregate import metadata_table as ledger
from dedupe_pipeline.jobs.aggregate.increments import Progress
from dedupe_pipeline.jobs.aggregate.postgres import Postgres, where
from dedupe_pipeline.jobs.aggregate.sql import Layout
from dedupe_pipeline.streaming import first_line

Answer = TypeVar("Answer")

_LOCKS = 0x6465_6475 << 32  # the upper half of our locks' numbers; the lower is the table's oid
_LOCK_POLL_SECONDS = 0.2
# These say that the session is over or in the wrong place (a server that was demoted): another one may do better.
_PASSING = (
    psycopg.OperationalError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.TransactionTimeout,
)
_RETRY_SECONDS = 0.5
_ROWS_A_WRITE = 50_000
_AS_CSV = csv.WriteOptions(include_header=False, quoting_style="all_valid")  # so null is not ''


class Moved(Exception):
    """More is counted than a batch was computed from."""

    def __init__(self, progress: dict[int, Progress]) -> None:
        super().__init__()
        self.progress = progress


class Database:
    """Adds batches to one table. Use it as a context manager; one thread at a time.

    `patience` is how long a database that went away is waited for, `lock_patience` another job on
    the same table, which may be one that was killed just now.
    """

    def __init__(
        self,
        postgres: Postgres,
        layout: Layout,
        *,
        patience: timedelta = timedelta(minutes=2),
        lock_patience: timedelta = timedelta(seconds=30),
        stop: threading.Event | None = None,
    ) -> None:
        self._postgres = postgres
        self._layout = layout
        self._patience = patience
        self._lock_patience = lock_patience
        self._stop = stop or threading.Event()
        self._connection: psycopg.Connection | None = None
        self._oid = 0

    def __enter__(self) -> Self:
        """Connect, make the tables that are not there, and take the lock.

        Raises:
            DatabaseFailed: it can't be reached, or refuses.
            JobRefused: another job adds to the table, or there is another table of that name.
        """
        try:
            self._connection = self._begin()
        except psycopg.Error as error:
            raise DatabaseFailed(f"PostgreSQL: {first_line(error)}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def register(self, source: ledger.Source, *, skip_deleted: bool = False) -> dict[int, Progress]:
        """Enter the job or check that it is the one there; returns how far it is.

        Raises:
            JobRefused, RecordsExpired: see `ledger.register`.
            DatabaseFailed: it refuses.
        """

        def entered(connection: psycopg.Connection) -> dict[int, Progress]:
            ledger.register(connection, self._layout, self._oid, source, skip_deleted=skip_deleted)
            return ledger.progress(connection, self._layout, self._oid)

        return self._persistently(entered)

    def add(
        self, batch: pa.Table, ends: Mapping[int, int], progress: Mapping[int, Progress]
    ) -> dict[int, Progress]:
        """Add a batch, in the columns of `increments`, that was computed from `progress`.

        `ends` is one past the last offset of the batch, of each partition. Returns the new progress.

        Raises:
            Moved: nothing was added, the progress is another.
            DatabaseFailed: nothing was added, and it can't be.
            JobRefused: nothing was added, the table of that name is another one by now.
        """
        return self._persistently(lambda found: self._add(found, batch, ends, progress))

    def _add(
        self,
        connection: psycopg.Connection,
        batch: pa.Table,
        ends: Mapping[int, int],
        progress: Mapping[int, Progress],
    ) -> dict[int, Progress]:
        with connection.transaction():
            # The lock of the session keeps others out; this one also a session that lost it unawares.
            connection.execute(self._layout.hold(), {"target": self._oid})
            found = ledger.progress(connection, self._layout, self._oid)
            if found != progress:
                raise Moved(found)
            self._copy(connection, batch)
            self._add_rows(connection)
            # Not earlier: nobody can rename the table that these rows went to from here to the commit.
            ledger.check_still(connection, self._layout, self._oid)
            return self._write_down(connection, ends)

    def _copy(self, connection: psycopg.Connection, batch: pa.Table) -> None:
        with connection.cursor() as cursor, cursor.copy(self._layout.copy()) as copy:
            for rows in batch.to_batches(max_chunksize=_ROWS_A_WRITE):
                text = io.BytesIO()
                csv.write_csv(rows, text, _AS_CSV)
                copy.write(text.getvalue())

    def _add_rows(self, connection: psycopg.Connection) -> None:
        connection.execute(self._layout.add())

    def _write_down(
        self, connection: psycopg.Connection, ends: Mapping[int, int]
    ) -> dict[int, Progress]:
        connection.execute(self._layout.account(), {"target": self._oid})
        connection.execute(
            self._layout.advance(),
            {"target": self._oid, "partitions": list(ends.keys()), "ends": list(ends.values())},
        )
        return ledger.progress(connection, self._layout, self._oid)

    # -- the connection ----------------------------------------------------------------------------

    def _persistently(self, action: Callable[[psycopg.Connection], Answer]) -> Answer:
        """Do it on a connection that has the lock, and again on a new one if that breaks."""
        deadline: float | None = None
        while True:
            try:
                if self._connection is None:
                    self._connection = self._begin()
                return action(self._connection)
            except _PASSING as error:
                self._drop()
                if deadline is None:
                    deadline = time.monotonic() + self._patience.total_seconds()
                if time.monotonic() > deadline or self._stop.wait(_RETRY_SECONDS):
                    raise DatabaseFailed(
                        f"PostgreSQL: {first_line(error)}; what was not added yet is added when the job "
                        "runs again"
                    ) from error
            except psycopg.Error as error:
                raise DatabaseFailed(
                    f"PostgreSQL refuses a batch for {self._layout.table}: {first_line(error)}; nothing "
                    "of it was added"
                ) from error

    def _begin(self) -> psycopg.Connection:
        connection = self._postgres.connect()
        try:
            self._oid = ledger.make_tables(connection, self._layout, known=self._oid or None)
            self._lock(connection)
            connection.execute(self._layout.create_staging())
        except BaseException:
            connection.close()
            raise
        return connection

    def _lock(self, connection: psycopg.Connection) -> None:
        deadline = time.monotonic() + self._lock_patience.total_seconds()
        asked = "SELECT pg_try_advisory_lock(%s)"
        while connection.execute(asked, (_LOCKS | self._oid,)).fetchone() != (True,):
            if time.monotonic() > deadline or self._stop.wait(_LOCK_POLL_SECONDS):
                raise JobRefused(
                    f"another job adds to {self._layout.table} in {where(connection)}"
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
