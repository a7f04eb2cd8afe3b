"""A table of Iceberg or Delta Lake, and what Spark needs for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.runtime import jars
from dedupe_pipeline.runtime.hadoop_paths import spark_path

_EXTENSIONS = "spark.sql.extensions"


class TableFormat(StrEnum):
    """The formats of tables."""

    ICEBERG = "iceberg"
    DELTA = "delta"


@dataclass(frozen=True, kw_only=True)
class TableTarget:
    """A table by its name.

    Of Iceberg as CATALOG.SCHEMA.TABLE, of Delta Lake as SCHEMA.TABLE, as a path or a URL. `warehouse` is the directory
    of a Hadoop catalog with the name CATALOG.
    """

    format: TableFormat
    name: str
    warehouse: str | None = None

    def __post_init__(self) -> None:
        """Raise RequestRefused for a name or a warehouse that the format cannot have."""
        if self.format is TableFormat.ICEBERG:
            if "/" in self.name or len(self.name.split(".")) < 3 or "" in self.name.split("."):
                raise RequestRefused(
                    f"--table {self.name}: name an Iceberg table as CATALOG.SCHEMA.TABLE, such as lake.shop.orders"
                )
        elif self.warehouse is not None:
            raise RequestRefused(
                "--warehouse is for --format iceberg: name the path of a Delta table"
            )
        if self.warehouse is not None and self.warehouse.startswith(("s3:", "s3a:", "gs:", "abfs")):
            raise RequestRefused(
                f"--warehouse {self.warehouse}: the catalog of a directory commits by a rename, which object stores do "
                "not have; configure a REST or JDBC catalog with --conf"
            )

    @classmethod
    def parse(cls, text: str, warehouse: str | None) -> "TableTarget | None":
        """Return the table of "iceberg:lake.shop.orders", None of another text."""
        kind, separator, name = text.partition(":")
        if not separator or kind not in set(TableFormat):
            return None
        return cls(format=TableFormat(kind), name=name, warehouse=warehouse)

    @property
    def catalog(self) -> str:
        """Return the first part of the name."""
        return self.name.split(".")[0]

    def jars(self, properties: Mapping[str, str]) -> list[Path]:
        """Return the jars for the installed Spark.

        Raises:
            JarsUnavailable: there are none, or they could not be downloaded.
        """
        if self.format is TableFormat.DELTA:
            return jars.delta()
        on_s3 = any("S3FileIO" in value or value.startswith("s3:") for value in properties.values())
        return jars.iceberg(s3=on_s3)

    def properties(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return Spark's properties for the format; given ones take precedence."""
        if self.format is TableFormat.DELTA:
            extension = "io.delta.sql.DeltaSparkSessionExtension"
            catalogs = {
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"
            }
        else:
            extension = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
            catalogs = self._hadoop_catalog() if self.warehouse else {}
        known = [each for each in given.get(_EXTENSIONS, "").split(",") if each]
        extensions = known if extension in known else [*known, extension]
        return {**catalogs, **given, _EXTENSIONS: ",".join(extensions)}

    def _hadoop_catalog(self) -> dict[str, str]:
        warehouse = str(self.warehouse)
        if ":" not in warehouse:
            warehouse = spark_path(Path(warehouse))
        name = f"spark.sql.catalog.{self.catalog}"
        return {
            name: "org.apache.iceberg.spark.SparkCatalog",
            f"{name}.type": "hadoop",
            f"{name}.warehouse": warehouse,
        }
