"""Check that an expression depends only on its record, from Spark's analysed plan.

Such an expression returns the same result at any time and in any batch. `columns` calls it. The plan does not reveal a
user-defined function that is not registered as non-deterministic, nor `aes_encrypt` with a random initialisation
vector.
"""

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_SUBQUERIES = ("ScalarSubquery", "ListQuery", "Exists")
# Spark converts texts that begin so to the present time when it casts them to a date or a timestamp.
_MOVING = r"\s*(now|today|tomorrow|yesterday)\b"
_MOVING_TEXT = re.compile(_MOVING, re.IGNORECASE)
_MOVING_LITERAL = re.compile(rf"\b(date|timestamp(_ltz|_ntz)?)\s*['\"]{_MOVING}", re.IGNORECASE)
_MAKES_TIME = ("Cast", "ParseToDate", "ParseToTimestamp")


def nondeterminism(fields: DataFrame, row: DataFrame, expression: str) -> Iterator[str]:
    """Yield the reasons why an expression depends on more than its record.

    `row` is `fields` with the expression, in its last column.
    """
    plan = _analysed(row)
    added = {_class(step) for step in _nodes(plan)} - {
        _class(step) for step in _nodes(_analysed(fields))
    }
    if added:
        yield (
            "depends on other records (OVER)" if "Window" in added else "generates or drops records"
        )
    if _MOVING_LITERAL.search(expression):
        yield "contains the present time"
    *_, last = _each(plan.expressions())
    for node in _nodes(last):
        if reason := _varies(node):
            yield reason


def _varies(node: Any) -> str | None:  # noqa: ANN401 # Java objects, here and below
    name, below = _class(node), list(_each(node.children()))
    if name in _SUBQUERIES:
        return "contains a subquery"
    is_chance = not node.deterministic() and all(each.deterministic() for each in below)
    if is_chance or name.startswith("Current") or name in {"Now", "LocalTimestamp"}:
        return f"calls {node.prettyName()}()"
    texts = (each.toString() for each in below if _class(each) == "Literal")
    if name in _MAKES_TIME and any(map(_MOVING_TEXT.match, texts)):
        return "contains the present time"
    return None


def _analysed(frame: DataFrame) -> Any:  # noqa: ANN401
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 # Spark has no public way


def _nodes(tree: Any) -> Iterator[Any]:  # noqa: ANN401
    yield tree
    for each in _each(tree.children()):
        yield from _nodes(each)


def _each(of: Any) -> Iterator[Any]:  # noqa: ANN401
    return (of.apply(at) for at in range(of.size()))


def _class(of: Any) -> str:  # noqa: ANN401
    name: str = of.getClass().getSimpleName()
    return name
