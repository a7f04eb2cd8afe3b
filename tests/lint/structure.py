"""Check the size of modules, functions and folders of the product, who imports whom in it, and how tests wait.

The limits keep the tree readable: a folder is one concept, a module one thing in it. See `imports` for what counts as
an import.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.lint.checkout import Checkout, Finding, Module
from tests.lint.imports import cycles, edges, entries, import_graph

MODULE_LINES = 300
FUNCTION_LINES = 60
WORKER = "dedupe_worker"
WORKER_ENTRIES = 20
WORKER_EDGES = 80
PATIENCE = Path("tests/support/patience.py")


def check(checkout: Checkout) -> Iterator[Finding]:
    """Yield each violation of a limit."""
    for module in checkout.product:
        yield from _sizes(module)
    yield from _cycles(checkout)
    yield from _worker(checkout)
    for module in checkout.others("tests"):
        if module.path != PATIENCE:
            yield from _sleeps(module)


def functions(module: Module) -> list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    """Return each function with its lines, from `def` to its end, docstring included."""
    return [
        (node, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _sizes(module: Module) -> Iterator[Finding]:
    if module.lines > MODULE_LINES:
        yield module.finding(1, f"module has {module.lines} lines, more than {MODULE_LINES}")
    for function, lines in functions(module):
        if lines > FUNCTION_LINES:
            message = f"{function.name}() has {lines} lines, more than {FUNCTION_LINES}"
            yield module.finding(function.lineno, message)


def _cycles(checkout: Checkout) -> Iterator[Finding]:
    by_name = {module.name: module for module in checkout.product}
    for cycle in cycles(import_graph(checkout.product)):
        yield by_name[cycle[0]].finding(1, f"import cycle: {' -> '.join(cycle)}")


def _worker(checkout: Checkout) -> Iterator[Finding]:
    for package in checkout.packages:
        if package.name != WORKER:
            continue
        if (count := len(entries(checkout.root / package))) > WORKER_ENTRIES:
            message = f"has {count} modules and folders, more than {WORKER_ENTRIES}"
            yield Finding(WORKER, package, 1, message)
        if (count := len(edges(import_graph(checkout.product), WORKER))) > WORKER_EDGES:
            message = f"has {count} import edges between its entries, more than {WORKER_EDGES}"
            yield Finding(WORKER, package, 1, message)


def _sleeps(module: Module) -> Iterator[Finding]:
    """Yield each use of `time.sleep`. In code for another process, which is a string here, there may be one."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr="sleep", lineno=line):
                pass
            case ast.ImportFrom(module="time", names=names, lineno=line):
                if all(each.name != "sleep" for each in names):
                    continue
            case _:
                continue
        yield module.finding(line, f"sleeps: wait with wait_for() or pace() of {PATIENCE}")
