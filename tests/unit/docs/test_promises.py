"""Each promise of the pages is proved by tests that there are, on the simulation and on real parts."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCHEDULES = ROOT / "tests/simulation/schedule"


def rows(page: str) -> list[list[str]]:
    """The cells of each row of a page's table of promises."""
    table = (ROOT / page).read_text().split("| promise |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]


def only_in_the_matrix(path: Path) -> bool:
    """Check if all tests of a file have the marker `matrix`."""
    module = ast.parse(path.read_text()).body
    marked = any(
        isinstance(each, ast.Assign)
        and ast.unparse(each.targets[0]) == "pytestmark"
        and "pytest.mark.matrix" in ast.unparse(each.value)
        for each in module
    )
    tests = [
        each
        for each in module
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    ]
    return marked or all(
        any(ast.unparse(decorator) == "pytest.mark.matrix" for decorator in test.decorator_list)
        for test in tests
    )


@pytest.mark.parametrize("page", ["README.md", "docs/guarantees.md"])
def test_a_proof_that_only_the_matrix_runs_is_named_so_and_is_never_the_only_one(page: str) -> None:
    for row in rows(page):
        proofs = re.findall(r"\]\((?:\.\./)?(tests/[\w/]+\.py)\)( \(matrix\))?", row[-1])
        for proof, named in proofs:
            assert only_in_the_matrix(ROOT / proof) == bool(named), proof
        assert not all(named for _, named in proofs), row


@pytest.mark.parametrize(("page", "promises"), [("README.md", 8), ("docs/guarantees.md", 13)])
def test_every_promise_is_proved_by_a_test_on_real_parts(page: str, promises: int) -> None:
    found = rows(page)
    assert len(found) >= promises
    for row in found:
        proofs = re.findall(r"\]\((?:\.\./)?(tests/[\w/]+\.py)\)", row[-1])
        assert proofs, row
        assert all("def test_" in (ROOT / proof).read_text() for proof in proofs), row


def test_every_promise_names_the_faults_that_are_simulated_or_says_why_not() -> None:
    for promise, _, simulated, _ in rows("docs/guarantees.md"):
        assert "`" in simulated or simulated.startswith(("none: ", "all of them: ", "each ")), (
            promise
        )


def test_every_simulated_fault_is_one_that_schedules_have() -> None:
    schedules = "".join(path.read_text() for path in sorted(SCHEDULES.glob("*.py")))
    named = {
        fault
        for _, _, simulated, _ in rows("docs/guarantees.md")
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
