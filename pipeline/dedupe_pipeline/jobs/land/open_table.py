"""Open a table with the class of its format, or say what the session lacks."""

from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped] # has no annotations
from pyspark.sql import SparkSession

from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.jobs.land.delta_table import DeltaTable
from dedupe_pipeline.jobs.land.iceberg_table import IcebergTable
from dedupe_pipeline.jobs.land.table import LandingTable
from dedupe_pipeline.table_target import TableFormat, TableTarget


def open_table(spark: SparkSession, target: TableTarget) -> LandingTable:
    """Return the table, which may be absent.

    Raises:
        RequestRefused: the session has no jars of the format, or no such catalog.
    """
    jvm = spark._jvm  # noqa: SLF001 (no public counterpart)
    if target.format is TableFormat.DELTA:
        _require(jvm.io.delta.tables.DeltaTable, "delta-spark_4.1_2.13, with delta-storage")  # type: ignore[union-attr] # there is a JVM
        return DeltaTable(spark, target.name)
    _require(
        jvm.org.apache.iceberg.spark.FileRewriteCoordinator,  # type: ignore[union-attr] # there is a JVM
        "iceberg-spark-runtime-4.1_2.13",
    )
    if not spark.conf.get(f"spark.sql.catalog.{target.catalog}", ""):
        raise RequestRefused(
            f"--table {target.name}: Spark has no catalog {target.catalog!r}; name its directory with --warehouse, or "
            f"configure it with --conf spark.sql.catalog.{target.catalog}=org.apache.iceberg.spark.SparkCatalog and "
            "what its type needs"
        )
    return IcebergTable(spark, target.name.split("."))


def _require(found: object, jars: str) -> None:
    if isinstance(found, JavaPackage):  # what py4j returns for a class that is not there
        raise RequestRefused(
            f"this session of Spark has no {jars}: add it by --packages or --jars of spark-submit, for the version of "
            "Spark there"
        )
