"""The layers of the tests: which command runs which test, what a run left to another command, and times.

A pytest plugin that tests/conftest.py registers; it orders the tests, too. Each test is of one command:

- `make test`: units, simulation, and those of the real parts with the marker `proof`;
- `make test-all`, which runs those of `make test` as well: all others without the marker `matrix`;
- `make test-matrix`: those with the marker `matrix`.

Each command runs pytest several times: each run writes its report to the directory TEST_REPORTS, and
`python -m tests.support.layers` prints all of them as one. Each stage of a command appends a line "name seconds" to the
file stages.txt there, and a line to not-run.txt for one that this machine can't run.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4
from zlib import crc32

import pytest
from _pytest.mark import ParameterSet  # of no public name

PROOF: Final = "proof"
"""The marker of the tests on real parts that `make test` runs."""
LATER: Final = "later"
"""The marker of the units that `make test` leaves to `make test-all`."""
MATRIX: Final = "matrix"
"""The marker of the tests that only `make test-matrix` runs."""
REPORTS: Final = "TEST_REPORTS"
STAGES: Final = "stages.txt"
NOT_RUN: Final = "not-run.txt"
FIFTHS: Final = 5
REAL_PARTS: Final = ("tests/component", "tests/faults", "tests/e2e", "tests/native")
"""The folders whose tests are of `make test` only with the marker `proof`."""
# Spark's Java processes, brokers that start again and many workers at once load all cores.
_HEAVY: Final = (
    "tests/component/postgres",
    "tests/component/spark",
    "tests/faults/test_aggregate.py",
    "tests/faults/test_broker.py",
    "tests/faults/test_change_in_place.py",
    "tests/faults/test_growth.py",
)
_FOLDER_DEPTH: Final = 3
_SHOWN_SECONDS: Final = 3.0
_SLOW_SECONDS: Final = 15.0
_MOST_SHOWN: Final = 25


def matrix(*values: object) -> ParameterSet:
    """Return values of a parameter that only `make test-matrix` tries: another value stands for their kind."""
    return pytest.param(*values, marks=pytest.mark.matrix)


def later(*values: object) -> ParameterSet:
    """Return values of a parameter of a unit that `make test` leaves to `make test-all`."""
    return pytest.param(*values, marks=pytest.mark.later)


def spread(values: Iterable[object], every: int = 3) -> list[object]:
    """Return values of which `make test` runs each third: they are of one kind."""
    return [later(value) if number % every else value for number, value in enumerate(values)]


@dataclass
class Report:
    """The tests that a run left to another command, and the times of those that it ran.

    `left` maps a command to the ids of the tests that it would run. `tests` and `stages`: seconds of each test, and of
    the parts of a command. `not_run`: its parts that this machine can't run, and why.
    """

    left: dict[str, set[str]] = field(default_factory=dict)
    tests: dict[str, float] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)

    def leave(self, command: str, tests: set[str]) -> None:
        """Note tests that another command runs."""
        self.left.setdefault(command, set()).update(tests)

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

    def lines(self) -> list[str]:
        """Return the lines for the end of a run; none if there is nothing to say."""
        said = []
        if self.stages:
            said.append("minutes of the clock:")
            said += [f"  {each / 60:5.1f}  {name}" for name, each in self.stages.items()]
            said.append("minutes of the tests of a folder, one after another:")
            said += _lines(self.folders, _SHOWN_SECONDS)
            said.append("minutes of the slowest tests, with their fixtures:")
            said += _lines(self.tests, _SLOW_SECONDS)[:_MOST_SHOWN]
        for command, tests in sorted(self.left.items()):
            # Another run of the same command may have run them.
            if number := len(tests - self.tests.keys()):
                said.append(f"did not run: {number} tests of {command}")
        return said + [f"did not run: {each}" for each in self.not_run]

    def save(self, directory: Path) -> None:
        """Write the report into a directory of reports."""
        directory.mkdir(parents=True, exist_ok=True)
        content = asdict(self) | {"left": _as_lists(self.left)}
        (directory / f"{uuid4().hex}.json").write_text(json.dumps(content))


def read(directory: Path) -> Report:
    """Return the reports of a directory as one."""
    whole = Report()
    for path in sorted(directory.glob("*.json")):
        content = json.loads(path.read_text())
        for command, tests in content["left"].items():
            whole.leave(command, set(tests))
        for test, seconds in content["tests"].items():
            whole.add(test, seconds)
    stages = directory / STAGES
    for line in stages.read_text().splitlines() if stages.exists() else ():
        name, _, taken = line.rpartition(" ")
        whole.stages[name] = float(taken)
    not_run = directory / NOT_RUN
    whole.not_run = not_run.read_text().splitlines() if not_run.exists() else []
    return whole


def _as_lists(left: Mapping[str, set[str]]) -> dict[str, list[str]]:
    return {command: sorted(tests) for command, tests in left.items()}


def _lines(seconds: Mapping[str, float], least: float) -> list[str]:
    """Return a line for each that took longer, the longest first."""
    longest = sorted(seconds.items(), key=lambda each: -each[1])
    return [f"  {each / 60:5.1f}  {name}" for name, each in longest if each > least]


def _place(item: pytest.Item) -> int:
    """Return where a test comes in a run: those that mostly wait, those of Spark, then short ones, such as units."""
    if item.nodeid.startswith(_HEAVY):
        return 1
    return 0 if item.nodeid.startswith(REAL_PARTS) else 2


def in_fifth(path: str, commit: str) -> bool:
    """Check if a test file is of the fifth that a commit, in hexadecimal, stands for.

    The tests of a file stay together, because they share fixtures.
    """
    return crc32(path.encode()) % FIFTHS == int(commit, 16) % FIFTHS


def _command(item: pytest.Item) -> str:
    """Return the first command that runs a test."""
    if item.get_closest_marker(MATRIX):
        return "make test-matrix"
    return "make test" if item.get_closest_marker(PROOF) else "make test-all"


class Layers:
    """The plugin. With pytest-xdist the tests are collected by its workers, and reported by the main process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._report = Report()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give units the marker `proof`, before pytest selects by markers; order the tests; keep one fifth of them."""
        for item in items:
            if not item.nodeid.startswith(REAL_PARTS) and not item.get_closest_marker(LATER):
                item.add_marker(PROOF)
        items.sort(key=_place)
        if not (commit := self._config.getoption("fifth")):
            return
        others = [each for each in items if not in_fifth(each.nodeid.partition("::")[0], commit)]
        items[:] = [each for each in items if each not in set(others)]
        self._config.hook.pytest_deselected(items=others)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note the tests that this run leaves to another command."""
        for item in items:
            self._report.leave(_command(item), {item.nodeid})

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 # xdist has no public type for it
        """Take over what a process of xdist noted."""
        for command, tests in getattr(node, "workeroutput", {}).get("left", {}).items():
            self._report.leave(command, set(tests))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the time of a test."""
        self._report.add(report.nodeid, report.duration)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Hand the report on."""
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output["left"] = _as_lists(self._report.left)
        elif directory := os.environ.get(REPORTS):
            self._report.save(Path(directory))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the report below the tests' own results, unless a command prints all reports as one."""
        if REPORTS not in os.environ:
            for line in self._report.lines():
                terminalreporter.write_line(line)


def add_option(parser: pytest.Parser) -> None:
    """Add the option `--fifth`."""
    parser.addoption(
        "--fifth",
        metavar="COMMIT",
        default="",
        help="run a fifth of the test files: that of a commit",
    )


def main() -> None:
    """Print the reports of TEST_REPORTS as one."""
    print("\n".join(read(Path(os.environ[REPORTS])).lines()))


if __name__ == "__main__":
    main()
