"""The import graph of the modules of the product packages.

Two kinds of imports are kept apart. One that runs while its module is loaded can be part of a cycle. One inside a
function or under TYPE_CHECKING can't, because both modules are loaded by then; it counts only as an edge. That a module
also loads the `__init__.py` of the packages above it does not count, as in import-linter.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.lint.checkout import Module


@dataclass
class Imports:
    """The product modules that a module imports: while it is loaded, and later."""

    at_load: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)


def import_graph(modules: Iterable[Module]) -> dict[str, Imports]:
    """Return the imports of each module by its name; modules outside of `modules` are left out."""
    by_name = {module.name: module for module in modules}
    return {name: _imports(module, by_name) for name, module in by_name.items()}


def cycles(graph: Mapping[str, Imports]) -> list[list[str]]:
    """Return import cycles, each from a module back to itself; without its first edge each is broken.

    Cycles that share an edge can be reported as one.
    """
    edges = {name: set(imports.at_load) for name, imports in graph.items()}
    found = []
    while True:
        try:
            TopologicalSorter(edges).prepare()
        except CycleError as error:
            cycle = error.args[1][::-1]  # graphlib lists each module after the one that imports it
            found.append(cycle)
            edges[cycle[0]].remove(cycle[1])
        else:
            return found


def entries(folder: Path) -> set[str]:
    """Return the modules and folders with modules at the top of a package, without its `__init__`."""
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return files | {path.name for path in folder.iterdir() if any(path.rglob("*.py"))}


def edges(graph: Mapping[str, Imports], package: str) -> set[tuple[str, str]]:
    """Return the pairs of top entries of a package of which the first imports the second."""
    return {
        (source, target)
        for name, imports in graph.items()
        if (source := _entry(name, package))
        for imported in imports.at_load | imports.later
        if (target := _entry(imported, package)) and target != source
    }


def _entry(name: str, package: str) -> str:
    top, _, rest = name.partition(".")
    return rest.partition(".")[0] if top == package else ""


def _imports(module: Module, known: Mapping[str, Module]) -> Imports:
    found = Imports()
    for node, at_load in _import_nodes(module.tree, at_load=True):
        targets = {_known(name, known) for name in _names(node, module)} - {"", module.name}
        (found.at_load if at_load else found.later).update(targets)
    return found


def _import_nodes(
    node: ast.AST, *, at_load: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, at_load
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        at_load = False
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        at_load = False
    for child in ast.iter_child_nodes(node):
        yield from _import_nodes(child, at_load=at_load)


def _names(node: ast.Import | ast.ImportFrom, module: Module) -> Iterator[str]:
    """Yield the full names that may be modules: of `from a import b`, the name a.b."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        up = node.level - (module.path.name == "__init__.py")
        package = module.name.split(".")[: -up or None]
        base = ".".join([*package, base]).strip(".")
    yield from (f"{base}.{alias.name}" for alias in node.names)


def _known(name: str, known: Mapping[str, Module]) -> str:
    """Return the module that a name belongs to: itself, or the one that defines it; "" if neither is ours."""
    return next((each for each in (name, name.rpartition(".")[0]) if each in known), "")
