"""The picture and the tables of docs/architecture.md name what is in the tree and in import-linter's contracts."""

import re
import tomllib

import pytest

from tests.unit.architecture.page import HEADINGS, ROOT, path_of, section, used_everywhere, walk

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]


def packages_of(folder: str) -> set[str]:
    return {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}


def test_each_folder_in_the_picture_is_in_the_tree() -> None:
    below = packages_of("operator/dedupe_operator") | packages_of("worker/dedupe_worker")
    parts = {path.parent.parent.name for path in ROOT.glob("*/dedupe_*/__init__.py")}
    drawn = set(re.findall(r"(\w+)/", section("## The picture")))
    assert drawn == below | parts


@pytest.mark.parametrize(("table", "contract"), [(0, 0), (1, 1)], ids=["parts", "worker"])
def test_the_tables_of_packages_are_import_linters_layers(table: int, contract: int) -> None:
    text = section("## Packages").split("\nInside the worker:\n")[table]
    rows = re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE)
    layers = [
        [part.strip() for part in layer.split("|")] for layer in CONTRACTS[contract]["layers"]
    ]
    assert [re.findall(r"`(\w+)`", row) for row in rows] == layers
    assert CONTRACTS[contract]["type"] == "layers"


def test_modules_that_are_used_everywhere_exist() -> None:
    assert all((ROOT / path_of(module)).exists() for module in used_everywhere())


@pytest.mark.parametrize("heading", HEADINGS.values())
def test_no_module_stands_twice_in_a_walk(heading: str) -> None:
    modules = walk(heading).modules
    assert len(modules) == len(set(modules)) > 1


def test_each_module_that_is_entered_again_is_in_its_walk() -> None:
    for heading in HEADINGS.values():
        found = walk(heading)
        assert {module for pair in found.again for module in pair} <= set(found.modules)
