"""Connect to PostgreSQL by libpq's parameters.

Invariant: no password is where other users could read it. It comes from libpq's sources (PGPASSFILE or ~/.pgpass, a
service file, PGPASSWORD) or from a properties file. Only this process connects: Spark's plans contain no credentials.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dedupe_pipeline.errors import DatabaseFailed, PipelineError

_SECRET = ("password", "sslpassword")
_DEFAULTS = {
    "application_name": "dedupe-pipeline aggregate",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    # Keepalives notice a vanished host only while nothing is sent. Data without an acknowledgement, as in a COPY, would
    # be sent again for some 15 minutes. It is longer than they take because a slow disk may block the server.
    "tcp_user_timeout": "60000",
}
# Without these, a session whose client is gone would hold its lock for hours by default.
_SESSION = {
    "client_encoding": "UTF8",  # of the copied rows, whatever PGCLIENTENCODING is
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25s",  # as long as these keepalives take, which it replaces
    "idle_in_transaction_session_timeout": "60s",
}
LEAST_VERSION = 150_000
"""PostgreSQL 15: the first version with NULLS NOT DISTINCT in unique indexes."""


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A database as libpq's parameters, which may be secret and are never shown."""

    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str | None, properties: Mapping[str, str] | None = None) -> "Postgres":
        """Combine a URL, or libpq's key=value text, with properties, which win.

        The properties have libpq's names.

        Raises:
            PipelineError: libpq does not know the URL or a property, or the URL contains a password.
        """
        try:
            found = conninfo_to_dict(url or "")
            known = conninfo_to_dict(make_conninfo(**(properties or {})))
        except psycopg.ProgrammingError:
            # libpq's message may repeat its input, including a password.
            raise PipelineError(
                "the address of PostgreSQL is not one that libpq understands: write "
                "postgresql://USER@HOST:PORT/DATABASE, and properties by libpq's names"
            ) from None
        if given := [name for name in _SECRET if name in found]:
            raise PipelineError(
                f"--postgres-url has a {given[0]} in it, which every user of the machine can read: "
                "put it in the file that PGPASSFILE names (or ~/.pgpass), in a service file, or in "
                "--postgres-properties"
            )
        return cls(parameters={k: str(v) for k, v in {**found, **known}.items() if v is not None})

    def connect(self) -> psycopg.Connection:
        """Open a connection with this job's settings.

        Raises:
            psycopg.OperationalError: the server does not answer, or refuses.
            DatabaseFailed: the server's version is too old.
        """
        parameters = make_conninfo(**{**_DEFAULTS, **self.parameters})
        connection = psycopg.connect(parameters, autocommit=True)
        try:
            _check_version(connection)
            with connection.transaction():
                for name, value in _SESSION.items():
                    connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        except BaseException:
            connection.close()
            raise
        return connection


def _check_version(connection: psycopg.Connection) -> None:
    version = connection.info.server_version
    if version < LEAST_VERSION:
        raise DatabaseFailed(
            f"{where(connection)} is PostgreSQL {version // 10_000}; {LEAST_VERSION // 10_000} or newer "
            "is needed"
        )


def where(connection: psycopg.Connection) -> str:
    """Return the address of a connection's database, without secrets."""
    info = connection.info
    return f"{info.user}@{info.host}:{info.port}/{info.dbname}"
