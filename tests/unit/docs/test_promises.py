"""Each promise of the pages is proved by tests that there are, on the simulation and on real parts."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCHEDULES = ROOT / "tests/simulation/schedule"
MARKERS = re.compile(r"pytest\.mark\.(proof|matrix)\b")
PROVED = {"README.md": 2, "docs/guarantees.md": 3}
"""The column of a page that names the tests of `make test`."""


def rows(page: str) -> list[list[str]]:
    """The cells of each row of a page's table of promises."""
    table = (ROOT / page).read_text().split("| promise |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]


def markers_of(path: Path) -> list[set[str]]:
    """The markers of each test of a file."""
    module = ast.parse(path.read_text()).body
    of_all = {
        marker
        for each in module
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark"
        for marker in MARKERS.findall(ast.unparse(each.value))
    }
    return [
        of_all
        | {marker for each in test.decorator_list for marker in MARKERS.findall(ast.unparse(each))}
        for test in module
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
    ]


def links(cell: str) -> list[tuple[Path, bool]]:
    """The test files that a cell names, and whether it says that only the matrix runs them."""
    found = re.findall(r"\]\((?:\.\./)?(tests/[\w/]+\.py)\)( \(matrix\))?", cell)
    return [(ROOT / path, bool(named)) for path, named in found]


@pytest.mark.parametrize(("page", "promises"), [("README.md", 8), ("docs/guarantees.md", 16)])
def test_make_test_proves_every_promise_on_a_real_part(page: str, promises: int) -> None:
    found = rows(page)
    assert len(found) >= promises
    for row in found:
        proofs = links(row[PROVED[page]])
        assert proofs, row
        for path, _ in proofs:
            assert any("proof" in each for each in markers_of(path)), path


def test_make_test_all_proves_more_and_what_only_the_matrix_runs_is_named_so() -> None:
    for row in rows("docs/guarantees.md"):
        for path, named in links(row[-1]):
            of_make_test_all = [each for each in markers_of(path) if not each & {"proof", "matrix"}]
            assert bool(of_make_test_all) != named, path


def test_every_promise_names_the_faults_that_are_simulated_or_says_why_not() -> None:
    for promise, _, simulated, *_ in rows("docs/guarantees.md"):
        assert "`" in simulated or simulated.startswith(("none: ", "all of them: ", "each ")), (
            promise
        )


def test_every_simulated_fault_is_one_that_schedules_have() -> None:
    schedules = "".join(path.read_text() for path in sorted(SCHEDULES.glob("*.py")))
    named = {
        fault
        for _, _, simulated, *_ in rows("docs/guarantees.md")
        for fault in re.findall(r"`([^`]+)`", simulated)
    }
    process = "{_NAMES[self.process]}"
    unknown = {
        fault
        for fault in named
        if f'"{fault}' not in schedules
        and f'f"{re.sub("router|controller", process, fault)}"' not in schedules
    }
    assert unknown == set()
