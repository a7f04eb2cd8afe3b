"""A run orders its tests, and tells which it left out."""

import json
from pathlib import Path

import pytest

from tests.support.layers import REPORTS, Report, read

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[3]

CONFTEST = """
from tests.support.layers import Layers

def pytest_configure(config):
    config.addinivalue_line("markers", "matrix: many of a kind")
    config.pluginmanager.register(Layers(config))
"""

MATRIX = """
import pytest

@pytest.mark.matrix
@pytest.mark.parametrize("step", range(3))
def test_at_each_step(step): pass

def test_of_one_kind(): pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv(REPORTS, str(pytester.path / "reports"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the processes of xdist
    pytester.makeconftest(CONFTEST)
    return pytester


def test_those_of_spark_come_after_those_that_wait_and_short_ones_last(
    run: pytest.Pytester,
) -> None:
    for folder in ("component/spark", "component/worker", "unit"):
        path = run.path / "tests" / folder
        path.mkdir(parents=True)
        (path / f"test_{path.name}.py").write_text("def test(): pass")
    done = run.runpytest_inprocess("-p", "no:cacheprovider", "--verbose")
    found = [line.split("::")[0] for line in done.outlines if "PASSED" in line]
    assert [Path(each).stem for each in found] == ["test_worker", "test_spark", "test_unit"]


@pytest.mark.parametrize("processes", [[], ["-n", "1"]], ids=["one process", "xdist"])
def test_tests_of_the_matrix_are_counted_and_named(
    run: pytest.Pytester, processes: list[str]
) -> None:
    run.makepyfile(MATRIX)
    started = run.runpytest_subprocess if processes else run.runpytest_inprocess
    done = started("-m", "not matrix", "-p", "no:cacheprovider", *processes)
    done.assert_outcomes(passed=1, deselected=0 if processes else 3)
    done.stdout.fnmatch_lines(["3 tests of the matrix did not run: make test-matrix"])
    assert len(read(run.path / "reports").matrix) == 3


def test_a_run_without_anything_of_note_says_nothing(run: pytest.Pytester) -> None:
    run.makepyfile("def test_of_one_kind(): pass")
    done = run.runpytest_inprocess("-p", "no:cacheprovider")
    assert "matrix" not in done.stdout.str()


def test_the_runs_of_make_test_are_reported_as_one(tmp_path: Path) -> None:
    """Some of them leave the same tests to the matrix."""
    Report({"a", "b"}).save(tmp_path)
    Report({"b", "c"}).save(tmp_path)
    whole = read(tmp_path)
    assert whole.matrix == {"a", "b", "c"}
    assert whole.lines()[-1] == "3 tests of the matrix did not run: make test-matrix"
    assert all(json.loads(path.read_text()) for path in tmp_path.iterdir())


def test_the_time_of_each_folder_and_stage_is_told(run: pytest.Pytester) -> None:
    run.makepyfile(
        **{
            "tests/unit/part/deep/test_a": "import time\ndef test_slow(): time.sleep(0.2)",
            "tests/unit/test_b": "def test_fast(): pass",
        }
    )
    run.runpytest_inprocess("-p", "no:cacheprovider")
    reports = run.path / "reports"
    (reports / "stages.txt").write_text("lint 30\nsimulate 42\n")
    whole = read(reports)
    assert list(whole.folders) == ["tests/unit/part", "tests/unit"]
    assert whole.folders["tests/unit/part"] >= 0.2
    assert whole.stages == {"lint": 30.0, "simulate": 42.0}
    assert "    0.7  simulate" in whole.lines()


def test_the_slowest_tests_are_told_first() -> None:
    """A test's fixtures count as its own time."""
    report = Report(stages={"pytest": 300.0})
    report.add("tests/unit/test_a.py::test_slow", 60)
    report.add("tests/unit/test_a.py::test_slow", 30)
    report.add("tests/unit/test_a.py::test_slower", 180)
    report.add("tests/unit/test_a.py::test_fast", 1)
    assert report.lines()[-2:] == [
        "    3.0  tests/unit/test_a.py::test_slower",
        "    1.5  tests/unit/test_a.py::test_slow",
    ]


def test_a_part_that_this_machine_cannot_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "not-run.txt").write_text("make native-test: no cargo\n")
    assert read(tmp_path).lines() == ["did not run: make native-test: no cargo"]
