"""What Spark needs for a table, and the tables that cannot be."""

from pathlib import Path

import pytest

from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.table_target import TableFormat, TableTarget

ICEBERG, DELTA = TableFormat
EXTENSIONS = "spark.sql.extensions"
CATALOG = "spark.sql.catalog.lake"


@pytest.mark.parametrize(
    ("name", "table_format", "warehouse", "refusal"),
    [
        ("orders", ICEBERG, None, "CATALOG.SCHEMA.TABLE"),
        ("lake..orders", ICEBERG, None, "CATALOG.SCHEMA.TABLE"),
        ("lake.shop.orders", ICEBERG, "s3a://lake", "commits by a rename"),
        ("/data/orders", DELTA, "/data", "for --format iceberg"),
    ],
)
def test_a_table_that_cannot_be_is_refused(
    name: str, table_format: TableFormat, warehouse: str | None, refusal: str
) -> None:
    with pytest.raises(RequestRefused, match=refusal):
        TableTarget(format=table_format, name=name, warehouse=warehouse)


def test_a_warehouse_is_a_catalog_of_a_directory() -> None:
    target = TableTarget(format=ICEBERG, name="lake.shop.orders", warehouse="my data")

    properties = target.properties({})

    assert properties[f"{CATALOG}.type"] == "hadoop"
    assert properties[f"{CATALOG}.warehouse"] == f"file://{Path.cwd()}/my data"


def test_what_is_configured_is_kept() -> None:
    given = {EXTENSIONS: "mine", f"{CATALOG}.type": "rest", "spark.executor.cores": "2"}
    target = TableTarget(format=ICEBERG, name="lake.shop.orders")

    properties = target.properties(given)

    assert properties[EXTENSIONS].split(",")[0] == "mine"
    assert len(properties[EXTENSIONS].split(",")) == 2
    assert target.properties(properties) == properties
    assert {**given, EXTENSIONS: properties[EXTENSIONS]} == properties


@pytest.mark.parametrize(
    ("text", "name"),
    [("iceberg:lake.shop.ids", "lake.shop.ids"), ("delta:s3a://lake/ids", "s3a://lake/ids")],
)
def test_a_text_with_a_format_names_a_table(text: str, name: str) -> None:
    found = TableTarget.parse(text, None)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("text", ["topic:orders", "s3a://lake/ids", "ids", "parquet:ids"])
def test_a_text_of_something_else_names_none(text: str) -> None:
    assert TableTarget.parse(text, None) is None
