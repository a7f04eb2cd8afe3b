"""The texts of a checkout that people read: docstrings, messages in the code, chart and documentation.

String literals stand for all messages: conditions, events, log lines, errors, CLI help and CRD descriptions are written
as literals, so nothing has to know the calls that take them. A generated file is left out; its source is read.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.lint.checkout import Checkout, Finding, Module

_GENERATED = "do not edit"  # in the first line of what `make generate` writes
_DOCUMENTS = ("README.md", "docs/*.md")
_CHART = "charts"
_CHART_SUFFIXES = {".json", ".tpl", ".txt", ".yaml"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Text(NamedTuple):
    """A piece of prose, and the lines of the file that it stands on."""

    group: str
    path: Path
    first_line: int
    last_line: int
    content: str

    def finding(self, position: int, message: str) -> Finding:
        """Return a violation at a position in the content."""
        line = self.first_line + self.content.count("\n", 0, position)
        return Finding(self.group, self.path, min(line, self.last_line), message)


def user_texts(checkout: Checkout) -> Iterator[Text]:
    """Yield what users of the product read, and the docstrings of the product."""
    for module in checkout.product:
        yield from docstrings(module)
        yield from literals(module)
    yield from documents(checkout)


def docstrings(module: Module) -> Iterator[Text]:
    """Yield the docstrings of a module, its classes and its functions, with their indentation."""
    for node in _docstring_nodes(module.tree):
        yield _text(module, node, node.value)


def literals(module: Module) -> Iterator[Text]:
    """Yield the string literals with a space in them that are no docstrings; {} for what f-strings insert."""
    skipped: set[ast.AST] = set(_docstring_nodes(module.tree))
    for node in ast.walk(module.tree):  # a parent before its children
        if isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
            content = "".join(_part(value) for value in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            content = node.value if node not in skipped else ""
        else:
            continue
        if " " in content.strip():
            yield _text(module, node, content)


def documents(checkout: Checkout) -> Iterator[Text]:
    """Yield README.md, the pages of docs/ and the files of the chart."""
    pages = [path for pattern in _DOCUMENTS for path in sorted(checkout.root.glob(pattern))]
    chart = sorted((checkout.root / _CHART).rglob("*"))
    for path in [*pages, *(path for path in chart if path.suffix in _CHART_SUFFIXES)]:
        content = path.read_text()
        if _GENERATED not in content.partition("\n")[0]:
            relative = path.relative_to(checkout.root)
            yield Text(relative.parts[0], relative, 1, content.count("\n") + 1, content)


def _docstring_nodes(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            expression = node.body[0]
            assert isinstance(expression, ast.Expr)
            assert isinstance(expression.value, ast.Constant)
            yield expression.value


def _part(value: ast.expr) -> str:
    return str(value.value) if isinstance(value, ast.Constant) else "{}"


def _text(module: Module, node: ast.expr, content: object) -> Text:
    last_line = node.end_lineno or node.lineno
    return Text(module.group, module.path, node.lineno, last_line, str(content))
