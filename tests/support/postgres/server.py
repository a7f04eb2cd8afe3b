"""A real PostgreSQL for tests: one server per session, one database per test."""

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
from tests.support.processes.brokers import START_SECONDS


@dataclass(frozen=True, kw_only=True)
class TestDatabase:
    """A database for one test."""

    __test__ = False  # tells pytest that this is no test class

    server: EmbeddedPostgres
    name: str

    @property
    def url(self) -> str:
        return self.server.url_of(self.name)

    @property
    def postgres(self) -> Postgres:
        return Postgres.of(self.url)

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Return the rows of a query."""
        with psycopg.connect(self.url, options="-c TimeZone=UTC") as connection:
            return connection.execute(query.encode(), parameters).fetchall()

    def run(self, *statements: str) -> None:
        """Execute statements in a transaction."""
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def has(self, table: str) -> bool:
        """Return whether a table or view exists."""
        return self.rows("SELECT to_regclass(%s) IS NOT NULL", [table]) == [(True,)]


@contextmanager
def running_postgres(host: str = "127.0.0.1") -> Iterator[EmbeddedPostgres]:
    """Run a server in a temporary directory, which is deleted at the end."""
    # Not pytest's directory: the server may run as another user, who has no access there.
    directory = Path(tempfile.mkdtemp(prefix="dedupe-postgres-"))
    try:
        with EmbeddedPostgres(directory, host, start_seconds=START_SECONDS) as server:
            yield server
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """Run one server for the session; a test that stops a server starts its own."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres_server: EmbeddedPostgres) -> TestDatabase:
    """Create an empty database for the test."""
    return new_database(postgres_server)


def new_database(server: EmbeddedPostgres) -> TestDatabase:
    """Create an empty database."""
    made = TestDatabase(server=server, name=f"test_{uuid4().hex[:8]}")
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {made.name}".encode())
    return made
