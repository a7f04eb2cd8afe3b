"""`--postgres`: departures and delays by carrier and hour, counted by a job that is killed in the middle.

The job of `aggregate.yaml` runs as a user runs it, is killed with SIGKILL, and counts the rest when it runs again.
What the table must hold is computed from the flights themselves.
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
from dedupe_local.run import child_process as tether
from dedupe_local.servers.postgres import EmbeddedPostgres
from dedupe_pipeline.jobs.aggregate import Postgres, aggregate, load_job
from examples.flights.data import Message
from examples.flights.outcome import CarrierDelays, Counting
from examples.flights.screen import Step

JOB = Path(__file__).with_name("aggregate.yaml")

_BATCHES = 10  # at least, so that there is a middle to kill it in
_LIMIT_SECONDS = 180.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.05
_SHOWN_LOG_BYTES = 2000
_DELAYED_MINUTES = 15
_CARRIERS_SHOWN = 5

Key = tuple[datetime, str]


class NotCounted(Exception):
    """The counts could not be made."""


class Counts(NamedTuple):
    """A row of the table but for its keys; what is taken of no departure is None."""

    flights: int = 0
    departures: int = 0
    delayed: int = 0
    delay_minutes: int | None = None
    worst_delay: int | None = None
    late: int = 0


@contextmanager
def database(url: str | None) -> Iterator[str]:
    """The URL of a PostgreSQL that can be used: the one given, or one that lives for the block.

    Raises:
        PostgresFailed: there is none to start.
        NotCounted, PipelineError: the one given can't be used.
    """
    if url is not None:
        with _connected(url) as connection:
            if _exists(connection):
                raise NotCounted(
                    f"Table {_table()} is there already: DROP TABLE {_table()} CASCADE, or give the URL of another "
                    "database."
                )
        yield url
        return
    with (
        tempfile.TemporaryDirectory(prefix="dedupestream-postgres-") as directory,
        EmbeddedPostgres(Path(directory)) as server,
    ):
        # It is of another server, and libpq would take it before the one in this server's file.
        os.environ.pop("PGPASSWORD", None)
        yield server.url


class Counter:
    """Counts a stream's clean topic into a database; `directory` is for what Spark leaves."""

    def __init__(self, url: str, manifest: Path, directory: Path) -> None:
        self._url = url
        self._manifest = manifest
        self._directory = directory
        self._killed_at = 0

    def count_and_be_killed(self, records: int, step: Step) -> None:
        """Run the job as a process, and kill it when about a third of the records is counted.

        Raises:
            NotCounted: it ended before, or did not get so far.
        """
        self._directory.mkdir()
        log_path = self._directory / "aggregate.log"
        with log_path.open("wb") as log, _connected(self._url) as connection:
            job = tether.spawn(self._command(records), output=log, env=self._environment())
            try:
                self._killed_at = self._wait(connection, job, records // 3, log_path, step)
            finally:
                _kill(job)
        step.show(f"at {self._killed_at:,} of {records:,}")

    def count_the_rest(
        self, spark: SparkSession, stream: DedupeStream, flights: Sequence[Message]
    ) -> Counting:
        """Run the job again, and hold the table against the flights.

        Raises:
            PipelineError: it can't go on.
            NotCounted: the table can't be read.
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
        # Who is killed tidies nothing up.
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
                said = log_path.read_text(errors="replace")[-_SHOWN_LOG_BYTES:]
                raise NotCounted(
                    f"The job aggregate ended, or hung, at {counted:,} records, before it could be killed; it said "
                    f"last:\n{said}"
                )
            step.show(f"{counted:,} records")
            time.sleep(_POLL_SECONDS)
        return counted


def truth(flights: Sequence[Message]) -> dict[Key, Counts]:
    """What the table must hold, by hour and carrier."""
    table: dict[Key, Counts] = {}
    for message in flights:
        flight = orjson.loads(message.value)
        key = (datetime.fromisoformat(flight["time_hour"]), flight["carrier"])
        table[key] = _with(table.get(key, Counts()), flight["dep_delay"])
    return table


def _with(row: Counts, delay: int | None) -> Counts:
    if delay is None:  # it was cancelled
        return row._replace(flights=row.flights + 1)
    return Counts(
        flights=row.flights + 1,
        departures=row.departures + 1,
        delayed=row.delayed + (delay > _DELAYED_MINUTES),
        delay_minutes=(row.delay_minutes or 0) + delay,
        worst_delay=delay if row.worst_delay is None else max(row.worst_delay, delay),
    )


def differing(found: Mapping[Key, Counts], expected: Mapping[Key, Counts]) -> int:
    """How many rows are wrong, missing, or of nothing."""
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
            f"PostgreSQL does not do what is needed: {str(error).strip()}. Correct the URL, or leave it out to have a "
            "PostgreSQL started."
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
    """End it and its Java process, which is in the same group, at once."""
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
    job.wait(_STOP_SECONDS)
