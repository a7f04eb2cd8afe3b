from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from dedupe_crds.manifest import ManifestError
from dedupe_pipeline.jobs.aggregate.job_file import AggregateJob, Function, Late, Measure, load_job

EXAMPLE = Path(__file__).parents[5] / "examples/flights/aggregate.yaml"
LEAST = {"table": "t", "window": "1h", "measures": {"n": "count(*)"}}


def problems(tmp_path: Path, **changes: object) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**LEAST, **changes}))
    with pytest.raises(ManifestError) as refused:
        load_job(path)
    return "\n".join(refused.value.problems)


def loaded(tmp_path: Path, **changes: object) -> AggregateJob:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**LEAST, **changes}))
    return load_job(path)


def test_the_example_is_a_job() -> None:
    job = load_job(EXAMPLE)

    assert job.table == "flights_hourly"
    assert job.keys == {"carrier": "carrier"}
    assert job.measures["worst_delay"] == Measure(function=Function.MAX, of="dep_delay")


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    job = loaded(tmp_path)

    assert job.event_time == "record.timestamp"
    assert (job.slide, job.watermark, job.where, job.schema_) == (None, None, None, None)
    assert (job.keys, job.late, job.counts_late) == ({}, Late.COUNT, False)
    assert job.window == timedelta(hours=1)


def test_late_records_have_a_column_only_with_a_watermark_and_if_they_are_counted(
    tmp_path: Path,
) -> None:
    assert loaded(tmp_path, watermark="1m").counts_late
    assert not loaded(tmp_path, watermark="1m", late="Drop").counts_late


def test_keys_are_fields_or_named_expressions(tmp_path: Path) -> None:
    assert loaded(tmp_path, keys=["a", "b"]).keys == {"a": "a", "b": "b"}
    assert loaded(tmp_path, keys={"a": "upper(x)"}).keys == {"a": "upper(x)"}


@pytest.mark.parametrize(
    ("text", "function", "of"),
    [
        ("count(*)", "count", "*"),
        (" SUM( a + b ) ", "sum", "a + b"),
        ("max(greatest(a, b))", "max", "greatest(a, b)"),
    ],
)
def test_a_measure_is_a_function_of_an_expression(
    text: str, function: str, of: str, tmp_path: Path
) -> None:
    job = loaded(tmp_path, measures={"m": text})

    assert job.measures["m"] == Measure(function=Function(function), of=of)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"measures": {"m": "avg(x)"}}, "measures.m: 'avg(x)' is not a measure; write count(*)"),
        ({"measures": {"m": "sum(*)"}}, "measures.m: 'sum(*)': only count takes *"),
        ({"measures": {"m": "sum()"}}, "measures.m: 'sum()' is not a measure"),
        ({"measures": {}}, "measures: is empty"),
        ({"measures": {"late": "count(*)"}}, "measures: late is the name of another column"),
        ({"keys": ["n"]}, "measures: n is the name of another column"),
        ({"keys": ["a", "a"]}, "keys: a key is given twice"),
        ({"keys": {"A b": "x"}}, "keys.A b: 'A b' must be a column's name"),
        ({"table": "Flights"}, "table: 'Flights' must be a table's name"),
        ({"table": "a.b.c"}, "table: 'a.b.c' must be a table's name"),
        ({"window": "0s"}, "window: '0s' must be from 1s to 3650d"),
        ({"slide": "7m"}, "slide: 7m does not divide the window of 1h"),
        ({"slide": "2h"}, "slide: 2h does not divide the window of 1h"),
        ({"slide": "30s"}, "slide: 30s does not divide the window of 1h into at most 100"),
        ({"late": "drop"}, "late: 'drop' is not allowed; did you mean Drop?"),
        ({"eventTme": "x"}, "eventTme: unknown field; did you mean eventTime?"),
        ({"window": 60}, "window: "),
    ],
)
def test_what_is_wrong_is_told(changes: dict[str, object], says: str, tmp_path: Path) -> None:
    assert problems(tmp_path, **changes).startswith(says)


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    told = problems(tmp_path, table="T", window="x", measures={"m": "f(x)"})

    assert {line.split(":")[0] for line in told.splitlines()} == {"table", "window", "measures.m"}


def test_the_definition_is_all_but_the_tables_name_as_the_file_writes_it(tmp_path: Path) -> None:
    given = loaded(tmp_path, slide="15m", measures={"n": "COUNT( * )"})

    assert given.definition() == {
        "schema": None,
        "eventTime": "record.timestamp",
        "window": "1h",
        "slide": "15m",
        "watermark": None,
        "late": "Count",
        "where": None,
        "keys": {},
        "measures": {"n": "count(*)"},
    }
    assert given.definition() == given.model_copy(update={"table": "u"}).definition()
