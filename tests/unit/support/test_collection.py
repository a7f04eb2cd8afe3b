"""Each test file of the tree is collected: pytest passes by folders with names such as `dist` and `build`."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]


def test_no_folder_with_tests_has_a_name_that_pytest_passes_by(pytestconfig: pytest.Config) -> None:
    names = {
        folder.name
        for path in TESTS.rglob("test_*.py")
        for folder in path.relative_to(TESTS).parents
        if folder.name
    }
    passed_by = pytestconfig.getini("norecursedirs")
    assert {name for name in names if any(fnmatch(name, each) for each in passed_by)} == set()
