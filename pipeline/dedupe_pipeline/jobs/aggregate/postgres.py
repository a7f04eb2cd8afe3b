"""How the job reaches PostgreSQL: libpq's own parameters, and no password where others could read it.

A password comes from where libpq looks for one (PGPASSFILE or ~/.pgpass, a service file, PGPASSWORD)
or from a file of properties. Only this process connects: nothing of it gets into Spark's plans.
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
}
# A connection whose other end is gone would keep its lock, for hours by default.
_SESSION = {
    "client_encoding": "UTF8",  # of what is copied, whatever PGCLIENTENCODING says
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "idle_in_transaction_session_timeout": "60s",
}
LEAST_VERSION = 150_000
"""PostgreSQL 15: the first whose unique indexes can take null for a value like others."""


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A database, as libpq's parameters, some of which may be secret and are never shown."""

    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str | None, properties: Mapping[str, str] | None = None) -> "Postgres":
        """A URL (or libpq's key=value text) and properties by libpq's names, which win.

        Raises:
            PipelineError: not a URL or a parameter that libpq knows, or a password in the URL.
        """
        try:
            found = conninfo_to_dict(url or "")
            known = conninfo_to_dict(make_conninfo(**(properties or {})))
        except psycopg.ProgrammingError:
            # libpq's text may repeat what was given, and so a password.
            raise PipelineError(
                "the address of PostgreSQL is not one that libpq understands: write "
                "postgresql://USER@HOST:PORT/DATABASE, and properties by libpq's names"
            ) from None
        if given := [name for name in _SECRET if name in found]:
            raise PipelineError(
                f"--postgres-url has a {given[0]} in it, which every user of the machine could read: "
                "put it in the file that PGPASSFILE names (or ~/.pgpass), in a service file, or in "
                "--postgres-properties"
            )
        return cls(parameters={k: str(v) for k, v in {**found, **known}.items() if v is not None})

    def connect(self) -> psycopg.Connection:
        """Open a connection with this job's settings.

        Raises:
            psycopg.OperationalError: nobody answers there, or it refuses.
            DatabaseFailed: too old.
        """
        told = make_conninfo(**{**_DEFAULTS, **self.parameters})
        connection = psycopg.connect(told, autocommit=True)
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
    """The database a connection leads to, without secrets."""
    info = connection.info
    return f"{info.user}@{info.host}:{info.port}/{info.dbname}"
