"""The statements for one job, as PostgreSQL gets them; the integration tests execute them."""

from psycopg import sql

from dedupe_pipeline.jobs.aggregate.columns import Shape
from dedupe_pipeline.jobs.aggregate.sql import TableSql
from tests.support.postgres.aggregate_truth import job

SHAPE = Shape(
    schema=None,
    keys={"carrier": "text"},
    measures=dict.fromkeys(("flights", "delayed", "total", "least", "worst"), "bigint"),
)


def layout(table: str = "flights", **changes: object) -> TableSql:
    return TableSql.of(job(table, **changes), SHAPE)


def text(statement: sql.Composed | None) -> str:
    assert statement is not None
    return statement.as_string(None)


def test_the_table_has_its_windows_keys_measures_and_late_records() -> None:
    assert text(layout().create_table()) == (
        'CREATE TABLE "flights" ("window_start" timestamp with time zone NOT NULL, '
        '"window_end" timestamp with time zone NOT NULL, "carrier" text, "flights" bigint NOT NULL, '
        '"delayed" bigint NOT NULL, "total" bigint, "least" bigint, "worst" bigint, '
        '"late" bigint NOT NULL, UNIQUE NULLS NOT DISTINCT ("window_start", "carrier"))'
    )
    assert "late" not in layout(late="Drop").columns()


def test_what_stands_beside_a_table_is_in_its_schema() -> None:
    in_schema = layout("shop.flights")

    assert text(in_schema.create_table()).startswith('CREATE TABLE "shop"."flights" (')
    assert text(in_schema.create_view()).startswith('CREATE OR REPLACE VIEW "shop"."flights_final"')
    assert '"shop"."dedupestream_offsets"' in text(in_schema.create_view())
    assert all('"shop"."dedupestream_' in text(one) for one in in_schema.create_metadata_tables())


def test_without_a_watermark_nothing_is_ever_final() -> None:
    assert layout(watermark=None).create_view() is None


def test_each_measure_is_added_in_its_own_way() -> None:
    _, sets = text(layout().add()).split(" DO UPDATE SET ")

    assert sets == (
        '"flights" = "t"."flights" + "excluded"."flights", '
        '"delayed" = "t"."delayed" + "excluded"."delayed", '
        '"total" = coalesce("t"."total" + "excluded"."total", "t"."total", "excluded"."total"), '
        '"least" = least("t"."least", "excluded"."least"), '
        '"worst" = greatest("t"."worst", "excluded"."worst"), '
        '"late" = "t"."late" + "excluded"."late"'
    )


def test_a_window_is_as_long_as_it_is_whatever_the_clocks_do() -> None:
    assert "'86400000000 microseconds'::interval" in text(layout(window="1d").add())
