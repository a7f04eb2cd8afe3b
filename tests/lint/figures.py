"""Figures of a checkout, to compare two commits: `python -m tests.lint --figures --root PATH`."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.lint.checkout import Checkout, Module
from tests.lint.imports import cycles, edges, entries, import_graph
from tests.lint.structure import functions
from tests.lint.texts import docstrings
from tests.lint.words import opens_with_relative_clause

_ONES = re.compile(r"\bones?\b")
_HEADER = ("package", "entries", "edges", "modules", "lines", "longest", "function")


def figures(checkout: Checkout) -> str:
    """Return two tables: the packages, then the whole checkout.

    Of a package: entries of its top folder, import edges between these, its modules and their lines, and the lines of
    the longest module and of the longest function.
    """
    rows = [_HEADER, *_packages(checkout)]
    text = "\n".join(f"{row[0]:24}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows)
    return text + "\n\n" + "\n".join(f"{name:44}{value:>10,}" for name, value in _totals(checkout))


def _packages(checkout: Checkout) -> Iterator[tuple[object, ...]]:
    graph = import_graph(checkout.product)
    for package in checkout.packages:
        modules = [module for module in checkout.product if module.group == package.name]
        yield (
            package.name,
            len(entries(checkout.root / package)),
            len(edges(graph, package.name)),
            len(modules),
            _lines(modules),
            max((module.lines for module in modules), default=0),
            max((lines for module in modules for _, lines in functions(module)), default=0),
        )


def _totals(checkout: Checkout) -> Iterator[tuple[str, int]]:
    yield "lines of product", _lines(checkout.product)
    for folder in ("tests", "benchmarks", "examples"):
        yield f"lines of {folder}", _lines(checkout.others(folder))
    docs = checkout.root / "docs"
    yield (
        "lines of docs and README, *.md",
        _file_lines([*docs.rglob("*.md"), *checkout.root.glob("README.md")]),
    )
    yield "lines of docs, *.svg", _file_lines(docs.rglob("*.svg"))
    yield "import cycles of product", len(cycles(import_graph(checkout.product)))
    found = [text.content for module in checkout.product for text in docstrings(module)]
    yield "docstrings of product", len(found)
    yield "… that open with a relative clause", sum(map(opens_with_relative_clause, found))
    ones = sum(len(_ONES.findall(module.source)) for module in checkout.product)
    yield '"one" and "ones" in product', ones


def _lines(modules: Iterable[Module]) -> int:
    return sum(module.lines for module in modules)


def _file_lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)
