"""The JDBC driver of PostgreSQL, which users of a JDBC catalog bring."""

from pathlib import Path
from typing import Final

from dedupe_pipeline.runtime.jars import resolve

_DRIVER: Final = ("org.postgresql:postgresql:42.7.7",)
_LOCKS: Final = Path(__file__).parent / "jars.json"


def postgres_driver() -> Path:
    """Return the jar, locked by its checksum."""
    [jar] = resolve("postgres-jdbc", _DRIVER, transitive=False, locks=_LOCKS)
    return jar
