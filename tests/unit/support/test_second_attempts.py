"""No second attempt for what judges records, fences, leaders or restores."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
ATTEMPTS = re.compile(r"mark\.flaky|\breruns?\s*=")
JUDGES = re.compile(r"judge|fence|leader|restor|exactly_once", re.IGNORECASE)


def with_second_attempts() -> list[Path]:
    found = [path for path in TESTS.rglob("test_*.py") if ATTEMPTS.search(path.read_text())]
    return [path for path in found if Path(__file__).parent not in path.parents]


def test_a_second_attempt_is_the_exception(pytestconfig: pytest.Config) -> None:
    assert not pytestconfig.getini("reruns"), "a test asks for it by its marker"
    assert pytestconfig.option.reruns in {None, 0}
    assert len(with_second_attempts()) <= 2


def test_nothing_that_judges_has_a_second_attempt() -> None:
    for path in with_second_attempts():
        assert path.is_relative_to(TESTS / "e2e")
        assert not JUDGES.search(path.read_text())
