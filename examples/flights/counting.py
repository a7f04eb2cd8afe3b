"""The option `--postgres`: count by carrier and hour in a job that is killed.

The job of `aggregate.yaml` runs as a separate process, is killed with SIGKILL, and counts the rest in a second run.
The expected table is computed from the flights themselves.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import orjson
import psycopg
from psycopg import sql
from pyspark.sql import SparkSession

from dedupe_crds.spec.stream import DedupeStream
from dedupe_local.run import child_process
from dedupe_local.servers.postgres import EmbeddedPostgres
from dedupe_pipeline.jobs.aggregate import Postgres, aggregate, load_job
from examples.flights.data import Message
from examples.flights.outcome import CarrierDelays, Counting
from examples.flights.screen import Step

JOB = Path(__file__).with_name("aggregate.yaml")

_BATCHES = 10  # at least, so that the job can be killed between two of them
_LIMIT_SECONDS = 180.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.05
_SHOWN_LOG_BYTES = 2000
_DELAYED_MINUTES = 15
_CARRIERS_SHOWN = 5

Key = tuple[datetime, str]


class NotCounted(Exception):
    """The job could not count the flights."""


class Counts(NamedTuple):
    """A row of the table without its keys; an aggregate of no departures is None."""

    flights: int = 0
    departures: int = 0
    delayed: int = 0
    delay_minutes: int | None = None
    worst_delay: int | None = None
    late: int = 0


@contextmanager
def database(url: str | None) -> Iterator[str]:
    """Yield the given URL, or the URL of a PostgreSQL that runs for the block.

    Raises:
        PostgresFailed: PostgreSQL could not be started.
        NotCounted, PipelineError: the PostgreSQL at the given URL cannot be used.
    """
    if url is not None:
        with _connected(url) as connection:
            if _exists(connection):
                raise NotCounted(
                    f"Table {_table()} exists already: DROP TABLE {_table()} CASCADE, or give the URL of another "
                    "database."
                )
        yield url
        return
    with (
        tempfile.TemporaryDirectory(prefix="dedupestream-postgres-") as directory,
        EmbeddedPostgres(Path(directory)) as server,
    ):
        # It is the password of another server, and libpq prefers it to the password file of this server.
        os.environ.pop("PGPASSWORD", None)
        yield server.url


class Counter:
    """Counts a stream's clean topic into a database; `directory` is for Spark's files."""

    def __init__(self, url: str, manifest: Path, directory: Path) -> None:
        self._url = url
        self._manifest = manifest
        self._directory = directory
        self._killed_at = 0

    def count_and_be_killed(self, records: int, step: Step) -> None:
        """Run the job as a process, and kill it after about a third of the records.

        Raises:
            NotCounted: the job ended or stalled before that.
        """
        self._directory.mkdir()
        log_path = self._directory / "aggregate.log"
        with log_path.open("wb") as log, _connected(self._url) as connection:
            job = child_process.spawn(self._command(records), output=log, env=self._environment())
            try:
                self._killed_at = self._wait(connection, job, records // 3, log_path, step)
            finally:
                _kill(job)
        step.show(f"at {self._killed_at:,} of {records:,}")

    def count_the_rest(
        self, spark: SparkSession, stream: DedupeStream, flights: Sequence[Message]
    ) -> Counting:
        """Run the job again, and compare the table with the flights.

        Raises:
            PipelineError: the job cannot continue.
            NotCounted: the table cannot be read.
        """
        job = load_job(JOB)
        aggregate(spark, stream, job, Postgres.of(self._url))
        with _connected(self._url) as connection:
            found = _read(connection)
            return Counting(
                table=job.table,
                url=self._url,
                rows=len(found),
                wrong_rows=differing(found, truth(flights)),
                records=sum(row.flights for row in found.values()),
                killed_at=self._killed_at,
                most_flights=_most_flights(connection),
            )

    def _command(self, records: int) -> list[str | Path]:
        return [
            *(sys.executable, "-m", "dedupe_pipeline", "aggregate"),
            *(self._manifest, JOB, "--postgres-url", self._url),
            *("--max-offsets-per-trigger", str(max(1, records // _BATCHES))),
        ]

    def _environment(self) -> Mapping[str, str]:
        # A killed process removes no temporary files, so they go to a directory that the demo removes.
        here = str(self._directory)
        return {**os.environ, "TMPDIR": here, "SPARK_LOCAL_DIRS": here}

    def _wait(
        self,
        connection: psycopg.Connection,
        job: "subprocess.Popen[bytes]",
        wanted: int,
        log_path: Path,
        step: Step,
    ) -> int:
        deadline = time.monotonic() + _LIMIT_SECONDS
        while (counted := _counted(connection)) < wanted:
            if job.poll() is not None or time.monotonic() > deadline:
                log = log_path.read_text(errors="replace")[-_SHOWN_LOG_BYTES:]
                raise NotCounted(
                    f"The job aggregate ended, or stalled, at {counted:,} records, before it could be killed. The end "
                    f"of its log:\n{log}"
                )
            step.show(f"{counted:,} records")
            time.sleep(_POLL_SECONDS)
        return counted


def truth(flights: Sequence[Message]) -> dict[Key, Counts]:
    """Return the expected table, by hour and carrier."""
    table: dict[Key, Counts] = {}
    for message in flights:
        flight = orjson.loads(message.value)
        key = (datetime.fromisoformat(flight["time_hour"]), flight["carrier"])
        table[key] = _with(table.get(key, Counts()), flight["dep_delay"])
    return table


def _with(row: Counts, delay: int | None) -> Counts:
    if delay is None:  # the flight was cancelled
        return row._replace(flights=row.flights + 1)
    return Counts(
        flights=row.flights + 1,
        departures=row.departures + 1,
        delayed=row.delayed + (delay > _DELAYED_MINUTES),
        delay_minutes=(row.delay_minutes or 0) + delay,
        worst_delay=delay if row.worst_delay is None else max(row.worst_delay, delay),
    )


def differing(found: Mapping[Key, Counts], expected: Mapping[Key, Counts]) -> int:
    """Count the rows that are wrong, missing, or not expected."""
    return sum(found.get(key) != expected.get(key) for key in found.keys() | expected.keys())


def _table() -> str:
    return load_job(JOB).table


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    try:
        with Postgres.of(url).connect() as connection:
            yield connection
    except psycopg.Error as error:
        raise NotCounted(
            f"PostgreSQL cannot be used: {str(error).strip()}. Correct the URL, or leave it out, and the demo starts a "
            "PostgreSQL."
        ) from error


def _exists(connection: psycopg.Connection) -> bool:
    return connection.execute("SELECT to_regclass(%s)", (_table(),)).fetchone() != (None,)


def _counted(connection: psycopg.Connection) -> int:
    if not _exists(connection):
        return 0
    total = sql.SQL("SELECT coalesce(sum(flights), 0)::bigint FROM {}")
    row = connection.execute(total.format(sql.Identifier(_table()))).fetchone()
    return int(row[0]) if row else 0


def _read(connection: psycopg.Connection) -> dict[Key, Counts]:
    columns = sql.SQL(", ").join(map(sql.Identifier, Counts._fields))
    query = sql.SQL("SELECT window_start, carrier, {} FROM {}")
    rows = connection.execute(query.format(columns, sql.Identifier(_table())))
    return {(start, carrier): Counts(*counts) for start, carrier, *counts in rows}


def _most_flights(connection: psycopg.Connection) -> list[CarrierDelays]:
    query = sql.SQL(
        "SELECT carrier, sum(flights), sum(departures), sum(delay_minutes) / greatest(1, sum(departures)), "
        "max(worst_delay) FROM {} GROUP BY carrier ORDER BY sum(flights) DESC, carrier LIMIT %s"
    )
    found = connection.execute(query.format(sql.Identifier(_table())), (_CARRIERS_SHOWN,))
    return [
        CarrierDelays(
            carrier=carrier,
            flights=flights,
            departures=departures,
            mean_delay_minutes=float(mean or 0),
            worst_delay_minutes=worst or 0,
        )
        for carrier, flights, departures, mean, worst in found
    ]


def _kill(job: "subprocess.Popen[bytes]") -> None:
    """Kill the job and its Java process, which is in the same process group."""
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
    job.wait(_STOP_SECONDS)
