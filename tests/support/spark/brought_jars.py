"""Jars that users bring: of a JDBC catalog's database, and of Hadoop's file system for S3."""

from pathlib import Path
from typing import Final

from dedupe_pipeline.runtime.jars import resolve

_POSTGRES: Final = ("org.postgresql:postgresql:42.7.7",)
_HADOOP_AWS: Final = ("org.apache.hadoop:hadoop-aws:3.4.2",)  # of the Hadoop client in pyspark
_LOCKS: Final = Path(__file__).parent / "jars.json"


def postgres_driver() -> Path:
    """Return the JDBC driver of PostgreSQL, locked by its checksum."""
    [jar] = resolve("postgres-jdbc", _POSTGRES, transitive=False, locks=_LOCKS)
    return jar


def hadoop_aws() -> list[Path]:
    """Return S3A with its AWS SDK, locked by their checksums: 600 MB."""
    return resolve("hadoop-aws", _HADOOP_AWS, locks=_LOCKS)
