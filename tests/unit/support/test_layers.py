"""A run orders its tests, and tells which it left to which command."""

import json
from pathlib import Path

import pytest

from tests.support.layers import FIFTHS, REPORTS, Report, read

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[3]

CONFTEST = """
from tests.support.layers import Layers, add_option

def pytest_addoption(parser):
    add_option(parser)

def pytest_configure(config):
    for marker in ("proof", "later", "matrix"):
        config.addinivalue_line("markers", marker)
    config.pluginmanager.register(Layers(config))
"""

REAL = """
import pytest

@pytest.mark.proof
@pytest.mark.parametrize("step", [0, pytest.param(1, marks=pytest.mark.matrix)])
def test_proved(step): pass

def test_one_more(): pass
"""

UNIT = """
import pytest

def test_of_the_product(): pass

@pytest.mark.later
def test_of_the_tests(): pass
"""

PROVED = {
    "tests/faults/test_real.py::test_proved[0]",
    "tests/unit/test_unit.py::test_of_the_product",
}
LATER = {"tests/faults/test_real.py::test_one_more", "tests/unit/test_unit.py::test_of_the_tests"}
MATRIX = {"tests/faults/test_real.py::test_proved[1]"}


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv(REPORTS, str(pytester.path / "reports"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the processes of xdist
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(**{"tests/faults/test_real": REAL, "tests/unit/test_unit": UNIT})
    return pytester


def test_those_of_spark_come_after_those_that_wait_and_short_ones_last(
    run: pytest.Pytester,
) -> None:
    for folder in ("component/spark", "component/worker", "unit"):
        path = run.path / "tests" / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / f"test_{path.name}.py").write_text("def test(): pass")
    done = run.runpytest_inprocess("-p", "no:cacheprovider", "--verbose", "-k", "test")
    found = [
        line.split("::")[0] for line in done.outlines if line.endswith("%]") and "::test " in line
    ]
    assert [Path(each).stem for each in found] == ["test_worker", "test_spark", "test_unit"]


@pytest.mark.parametrize(
    ("only", "ran", "left"),
    [
        ("proof and not matrix", PROVED, {"make test-all": LATER, "make test-matrix": MATRIX}),
        ("not proof and not matrix", LATER, {"make test": PROVED, "make test-matrix": MATRIX}),
        ("matrix", MATRIX, {"make test": PROVED, "make test-all": LATER}),
    ],
)
def test_each_test_is_of_one_command(
    run: pytest.Pytester, only: str, ran: set[str], left: dict[str, set[str]]
) -> None:
    run.runpytest_inprocess("-m", only, "-p", "no:cacheprovider")
    report = read(run.path / "reports")
    assert report.tests.keys() == ran
    assert report.left == left


def test_processes_of_xdist_report_as_one_run(run: pytest.Pytester) -> None:
    run.runpytest_subprocess("-m", "proof and not matrix", "-p", "no:cacheprovider", "-n", "1")
    report = read(run.path / "reports")
    assert report.tests.keys() == PROVED
    assert report.left == {"make test-all": LATER, "make test-matrix": MATRIX}


def test_the_five_fifths_are_all_tests_and_each_file_is_in_one(run: pytest.Pytester) -> None:
    for number in range(20):
        (run.path / f"tests/faults/test_{number}.py").write_text(
            "def test(): pass\ndef test_2(): pass"
        )
    found: list[set[str]] = []
    for commit in range(FIFTHS):
        reports = run.path / "reports"
        run.runpytest_inprocess("-p", "no:cacheprovider", "--fifth", f"{commit:040x}")
        found.append({each.partition("::")[0] for each in read(reports).tests})
        for path in reports.iterdir():
            path.unlink()
    files = {f"tests/faults/test_{number}.py" for number in range(20)}
    assert files | {"tests/faults/test_real.py", "tests/unit/test_unit.py"} == set.union(*found)
    assert sum(map(len, found)) == 22


def test_the_runs_of_a_command_are_reported_as_one(tmp_path: Path) -> None:
    """Each leaves tests to other commands, and another run of this command may have run them."""
    Report({"make test-all": {"a", "b"}}, {"x": 1.0}).save(tmp_path)
    Report({"make test-all": {"b", "c", "x"}, "make test-matrix": {"m"}}, {"a": 1.0}).save(tmp_path)
    assert read(tmp_path).lines() == [
        "did not run: 2 tests of make test-all",
        "did not run: 1 tests of make test-matrix",
    ]
    assert all(json.loads(path.read_text()) for path in tmp_path.iterdir())


def test_a_run_by_hand_says_what_it_left(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(REPORTS)
    done = run.runpytest_inprocess("-p", "no:cacheprovider", "-m", "not matrix")
    done.stdout.fnmatch_lines(["did not run: 1 tests of make test-matrix"])
    assert "make test-all" not in done.stdout.str()


def test_the_time_of_each_folder_and_stage_is_told(tmp_path: Path) -> None:
    Report(
        tests={"tests/unit/part/deep/test_a.py::test_slow": 60.0, "tests/unit/test_b.py::test": 0.1}
    ).save(tmp_path)
    (tmp_path / "stages.txt").write_text("lint 30\nsimulate 42\n")
    whole = read(tmp_path)
    assert whole.folders == {"tests/unit/part": 60.0, "tests/unit": 0.1}
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
