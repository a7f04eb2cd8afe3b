"""The versions of Spark that are supported, and the jars that belong to each.

Spark's jars fit one minor version of Spark only. The connector's own dependencies have the versions in its POM.
"""

from dataclasses import dataclass
from importlib.metadata import version

from dedupe_pipeline.errors import JarsUnavailable


@dataclass(frozen=True)
class SparkVersion:
    """The jars of one minor version of Spark, as Maven coordinates."""

    minor: str
    """Of the installed `pyspark`: "4.1"."""
    connector: tuple[str, ...]
    """Spark's Kafka connector, and what it needs that `pyspark` does not ship."""
    iceberg: tuple[str, ...] = ()
    """Iceberg's runtime; empty where tables are not supported."""
    delta: tuple[str, ...] = ()
    """Delta Lake's own jars; the others that they need are in `pyspark`."""


# The token provider is not published for each release; its interface is the same within a minor version.
_ALL = (
    SparkVersion(
        "3.5",
        (
            "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",  # pyspark 3.5 has Scala 2.12
            "org.apache.spark:spark-token-provider-kafka-0-10_2.12:3.5.7",
            "org.apache.kafka:kafka-clients:3.4.1",
            "org.apache.commons:commons-pool2:2.11.1",
        ),
    ),
    SparkVersion(
        "4.0",
        (
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.4",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
            "org.apache.kafka:kafka-clients:3.9.1",
            "org.apache.commons:commons-pool2:2.12.0",
        ),
    ),
    SparkVersion(
        "4.1",
        (
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.1",
            "org.apache.kafka:kafka-clients:3.9.1",
            "org.apache.commons:commons-pool2:2.12.1",
        ),
        iceberg=("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
        delta=(
            "io.delta:delta-spark_4.1_2.13:4.4.0",
            "io.delta:delta-storage:4.4.0",
            "io.delta:delta-kernel-api:4.4.0",
            "io.delta:delta-kernel-defaults:4.4.0",
            "io.delta:delta-kernel-unitycatalog:4.4.0",
            "io.unitycatalog:unitycatalog-client:0.6.0",
            "io.unitycatalog:unitycatalog-hadoop:0.6.0",
        ),
    ),
    SparkVersion(
        "4.2",
        (
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
            "org.apache.kafka:kafka-clients:3.9.2",
            "org.apache.commons:commons-pool2:2.13.1",
        ),
    ),
)
SUPPORTED = {known.minor: known for known in _ALL}


def installed() -> SparkVersion:
    """Return the version of Spark whose `pyspark` is installed.

    Raises:
        JarsUnavailable: no Kafka connector is known for it.
    """
    found = version("pyspark")
    known = SUPPORTED.get(".".join(found.split(".")[:2]))
    if known is None:
        raise JarsUnavailable(
            f"pyspark {found} is installed, and no Kafka connector is known for it; install pyspark "
            f"{', '.join(SUPPORTED)}, or name the connector's jars by --spark spark.jars=…"
        )
    return known


def installed_for_tables() -> SparkVersion:
    """Return the installed version of Spark, which must have jars of both tables.

    Raises:
        JarsUnavailable: there are none.
    """
    known = installed()
    if not known.iceberg:
        fit = " or ".join(each.minor for each in _ALL if each.iceberg)
        raise JarsUnavailable(
            f"tables need Spark {fit}, and pyspark {version('pyspark')} is installed: there are no tested jars of "
            "Iceberg and Delta Lake for it; install that version, or start the job with spark-submit and bring the jars"
        )
    return known
