"""A real PostgreSQL for tests: one server for a run, a database of its own for each test."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from dedupe_local.servers.postgres import EmbeddedPostgres
from dedupe_pipeline.jobs.aggregate import Postgres


@dataclass(frozen=True, kw_only=True)
class TestDatabase:
    """A database for one test."""

    __test__ = False  # to pytest: a name, not a class of tests

    server: EmbeddedPostgres
    name: str

    @property
    def url(self) -> str:
        return self.server.url_of(self.name)

    @property
    def postgres(self) -> Postgres:
        return Postgres.of(self.url)

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """What a query gives."""
        with psycopg.connect(self.url, options="-c TimeZone=UTC") as connection:
            return connection.execute(query.encode(), parameters).fetchall()

    def run(self, *statements: str) -> None:
        """Execute, in a transaction."""
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def has(self, table: str) -> bool:
        """Whether there is such a table or view."""
        return self.rows("SELECT to_regclass(%s) IS NOT NULL", [table]) == [(True,)]


@contextmanager
def running_postgres(host: str = "127.0.0.1") -> Iterator[EmbeddedPostgres]:
    """A server with a directory of its own, of which nothing is left in the end."""
    # Not pytest's: another user, whom the server may run as, can't go there.
    directory = Path(tempfile.mkdtemp(prefix="dedupe-postgres-"))
    try:
        with EmbeddedPostgres(directory, host) as server:
            yield server
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """One server for the whole run; a test that stops it starts its own."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres_server: EmbeddedPostgres) -> TestDatabase:
    """An empty database."""
    return new_database(postgres_server)


def new_database(server: EmbeddedPostgres) -> TestDatabase:
    """Make an empty database."""
    made = TestDatabase(server=server, name=f"test_{uuid4().hex[:8]}")
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {made.name}".encode())
    return made
