"""`import dedupestream`: every name, each at its first use."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import dedupestream
from dedupe_filters.reader import FilteredReader
from dedupe_pipeline.jobs.audit import audit
from dedupe_pipeline.jobs.land.job import land
from dedupe_pipeline.source import read_clean

# As where only the extra `reader` is installed.
WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
import dedupestream
assert not any(name.startswith("dedupe_") for name in sys.modules), "imported at once"
print(dedupestream.Reader.__name__, dedupestream.load_manifest.__name__)
try:
    dedupestream.audit
except ImportError as error:
    print(error)
"""


def test_every_name_is_that_of_its_package() -> None:
    assert dedupestream.Reader is FilteredReader
    assert dedupestream.audit is audit
    assert dedupestream.land is land
    assert dedupestream.read_clean is read_clean
    assert dir(dedupestream) == sorted(dedupestream.__all__)


@pytest.mark.parametrize("name", dedupestream.__all__)
def test_every_name_has_a_description(name: str) -> None:
    found = getattr(dedupestream, name)
    assert inspect.getdoc(found)
    if inspect.isfunction(found):
        assert found.__annotations__["return"] is not None


def test_type_checkers_know_the_same_names_at_the_same_places() -> None:
    """They see the imports that only they run, and Python those of the table."""
    tree = ast.parse(Path(dedupestream.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    known = {
        alias.asname or alias.name: node.module
        for node in imports
        for alias in node.names
        if node.module and node.module.startswith("dedupe_")
    }
    assert known == dedupestream._PLACES  # noqa: SLF001 (the table)
    assert list(known) != []
    assert sorted(known) == sorted(dedupestream.__all__)


def test_a_name_that_is_not_there_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'read_dirty'"):
        _ = dedupestream.read_dirty


def test_a_reader_needs_no_spark_and_the_rest_says_what_it_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    reader, needs = done.stdout.splitlines()
    assert reader == "FilteredReader load_manifest"
    assert needs.startswith("dedupestream.audit needs the package pyspark")
    assert "'pipeline'" in needs
