"""The layers of the tests: which tests a run left to `make test-matrix`, which it tried a second time, and their times.

A pytest plugin that tests/conftest.py registers; it orders the tests, too. `make test` runs pytest several times: each
run writes its report to the directory TEST_REPORTS, and `python -m tests.support.layers` prints all of them as one.
Each stage of `make test` appends a line "name seconds" to the file stages.txt there, and a line to not-run.txt for one
that this machine can't run.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from _pytest.mark import ParameterSet  # of no public name

MATRIX: Final = "matrix"
"""The marker of the tests that only `make test-matrix` runs."""
MOST_SECOND_ATTEMPTS: Final = 2
REPORTS: Final = "TEST_REPORTS"
STAGES: Final = "stages.txt"
NOT_RUN: Final = "not-run.txt"
# Spark's Java processes, brokers that start again and many workers at once load all cores, so the tests on Kubernetes
# should have ended: deadlines of both run on the clock.
_HEAVY: Final = (
    "tests/component/postgres",
    "tests/component/spark",
    "tests/faults/test_aggregate.py",
    "tests/faults/test_broker.py",
    "tests/faults/test_change_in_place.py",
    "tests/faults/test_growth.py",
)
_WAITING: Final = ("tests/component", "tests/faults")
_FOLDER_DEPTH: Final = 3
_SHOWN_SECONDS: Final = 3.0
_SLOW_SECONDS: Final = 15.0
_MOST_SHOWN: Final = 25


def matrix(*values: object) -> ParameterSet:
    """Return values of a parameter that only `make test-matrix` tries: another value stands for their kind."""
    return pytest.param(*values, marks=pytest.mark.matrix)


@dataclass
class Report:
    """Tests that a run did not run, and those that it ran twice. Ids; `second_attempts` with the first error.

    `tests` and `stages`: seconds of each test, and of the parts of `make test`. `not_run`: its parts that this machine
    can't run, and why.
    """

    matrix: set[str] = field(default_factory=set)
    second_attempts: list[tuple[str, str]] = field(default_factory=list)
    tests: dict[str, float] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)

    def add(self, test: str, seconds: float) -> None:
        """Add the seconds of a part of a test, such as its fixtures."""
        self.tests[test] = self.tests.get(test, 0.0) + seconds

    @property
    def folders(self) -> dict[str, float]:
        """Return the seconds of all tests of each folder, over all processes."""
        folders: dict[str, float] = {}
        for test, seconds in self.tests.items():
            path = test.partition("::")[0].rpartition("/")[0]
            folder = "/".join(path.split("/")[:_FOLDER_DEPTH])
            folders[folder] = folders.get(folder, 0.0) + seconds
        return folders

    @property
    def failed(self) -> bool:
        """Check if more tests had a second attempt than a good run may have."""
        return len(self.second_attempts) > MOST_SECOND_ATTEMPTS

    def lines(self) -> list[str]:
        """Return the lines for the end of a run; none if there is nothing to say."""
        said = []
        if self.stages:
            said.append("minutes of the clock, of tests that run beside others too:")
            said += [f"  {each / 60:5.1f}  {name}" for name, each in self.stages.items()]
            said.append("minutes of the tests of a folder, one after another:")
            said += _lines(self.folders, _SHOWN_SECONDS)
            said.append("minutes of the slowest tests, with their fixtures:")
            said += _lines(self.tests, _SLOW_SECONDS)[:_MOST_SHOWN]
        if self.second_attempts:
            width = max(len(name) for name, _ in self.second_attempts)
            said.append(f"{len(self.second_attempts)} tests had a second attempt:")
            said += [f"  {name:{width}}  {error}" for name, error in self.second_attempts]
        if self.failed:
            said.append(f"FAILED: more than {MOST_SECOND_ATTEMPTS} second attempts in one run")
        if self.matrix:
            said.append(f"{len(self.matrix)} tests of the matrix did not run: make test-matrix")
        said += [f"did not run: {each}" for each in self.not_run]
        return said

    def save(self, directory: Path) -> None:
        """Write the report into a directory of reports."""
        directory.mkdir(parents=True, exist_ok=True)
        content = asdict(self) | {"matrix": sorted(self.matrix)}
        (directory / f"{uuid4().hex}.json").write_text(json.dumps(content))


def _place(item: pytest.Item) -> int:
    """Return where a test comes in a run."""
    if item.nodeid.startswith(_HEAVY):
        return 1
    return 0 if item.nodeid.startswith(_WAITING) else 2


def _lines(seconds: Mapping[str, float], least: float) -> list[str]:
    """Return a line for each that took longer, the longest first."""
    longest = sorted(seconds.items(), key=lambda each: -each[1])
    return [f"  {each / 60:5.1f}  {name}" for name, each in longest if each > least]


def read(directory: Path) -> Report:
    """Return the reports of a directory as one."""
    whole = Report()
    for path in sorted(directory.glob("*.json")):
        content = json.loads(path.read_text())
        whole.matrix |= set(content["matrix"])
        whole.second_attempts += [(name, error) for name, error in content["second_attempts"]]
        for test, seconds in content["tests"].items():
            whole.add(test, seconds)
    stages = directory / STAGES
    for line in stages.read_text().splitlines() if stages.exists() else ():
        name, _, taken = line.rpartition(" ")
        whole.stages[name] = float(taken)
    not_run = directory / NOT_RUN
    whole.not_run = not_run.read_text().splitlines() if not_run.exists() else []
    return whole


class Layers:
    """The plugin. With pytest-xdist the tests are collected by its workers, and reported by the main process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._report = Report()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the tests that mostly wait first, then those of Spark, then short ones, such as units."""
        items.sort(key=_place)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note the tests of the matrix that this run leaves out."""
        self._report.matrix |= {each.nodeid for each in items if each.get_closest_marker(MATRIX)}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 # xdist has no public type for it
        """Take over what a process of xdist noted."""
        self._report.matrix |= set(getattr(node, "workeroutput", {}).get(MATRIX, ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the time, and a second attempt, which the first one's report announces."""
        self._report.add(report.nodeid, report.duration)
        if report.outcome == "rerun":  # type: ignore[comparison-overlap] # of pytest-rerunfailures
            error = report.longreprtext.strip().splitlines() or [""]
            self._report.second_attempts.append((report.nodeid, error[-1][:100]))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run of too many second attempts; hand the report on."""
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output[MATRIX] = sorted(self._report.matrix)
            return
        if directory := os.environ.get(REPORTS):
            self._report.save(Path(directory))
        if self._report.failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the report below the tests' own results."""
        for line in self._report.lines():
            terminalreporter.write_line(line)


def main() -> None:
    """Print the reports of TEST_REPORTS as one. Exit code 1: there were too many second attempts."""
    whole = read(Path(os.environ[REPORTS]))
    print("\n".join(whole.lines()))
    sys.exit(1 if whole.failed else 0)


if __name__ == "__main__":
    main()
