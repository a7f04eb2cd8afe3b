"""docs/readers.md has every option of Spark's data source, every argument of the plain reader, and valid Python."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from dedupe_filters.reader import FilteredReader
from dedupe_kafka.errors import InvalidConfig
from dedupe_pipeline.datasource.arrow import NO_COLUMNS, spark_schema
from dedupe_pipeline.datasource.options import read_options

PAGE = (Path(__file__).parents[3] / "docs/readers.md").read_text()
ARGUMENTS, OPTIONS = PAGE.split("### Options")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def options() -> list[str]:
    """Return all options, from the error message of the data source."""
    with pytest.raises(InvalidConfig) as refused:
        read_options({"no such option": ""})
    told = re.search(r"known are (.+), and (kafka\.PROPERTY)", str(refused.value))
    assert told
    return [*told[1].split(", "), told[2]]


def test_every_option_of_the_data_source_is_in_its_page() -> None:
    assert len(options()) > 10
    assert [name for name in options() if f"| `{name}` |" not in OPTIONS] == []


def test_no_other_option_is_in_the_page_or_its_examples() -> None:
    table = OPTIONS.split("### Columns", maxsplit=1)[0]
    named = re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)
    # `path` and `checkpointLocation` are the sink's.
    given = set(re.findall(r'\.option\("(\w+)"', PAGE)) - {"path", "checkpointLocation"}

    assert sorted(named) == sorted(options())
    assert given <= set(named)


def test_every_argument_of_the_plain_reader_is_in_its_page() -> None:
    arguments = inspect.signature(FilteredReader).parameters
    assert [name for name in arguments if f"`{name}`" not in ARGUMENTS] == []


def test_every_column_is_in_its_page() -> None:
    columns = spark_schema(NO_COLUMNS).names
    assert [name for name in columns if f"`{name}`" not in OPTIONS.split("### Columns")[1]] == []


def test_examples_are_python_with_arguments_that_there_are() -> None:
    assert len(EXAMPLES) >= 4
    arguments = inspect.signature(FilteredReader).parameters
    calls = [
        node
        for example in EXAMPLES
        for node in ast.walk(ast.parse(example))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Reader"
    ]
    assert len(calls) >= 2
    assert {keyword.arg for call in calls for keyword in call.keywords} <= arguments.keys()
