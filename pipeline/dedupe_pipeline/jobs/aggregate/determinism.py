"""Whether an expression depends on its record alone, and so gives the same in whichever batch and whenever it is asked.

Spark's analysed plan tells. It does not tell of a function of the user's own that is not registered as
non-deterministic, nor of `aes_encrypt` with an initialisation vector of its own choice.
"""

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_SUBQUERIES = ("ScalarSubquery", "ListQuery", "Exists")
# Spark takes texts that begin so for times wherever it makes a date or a timestamp of them.
_MOVING = r"\s*(now|today|tomorrow|yesterday)\b"
_MOVING_TEXT = re.compile(_MOVING, re.IGNORECASE)
_MOVING_LITERAL = re.compile(rf"\b(date|timestamp(_ltz|_ntz)?)\s*['\"]{_MOVING}", re.IGNORECASE)
_MAKES_TIME = ("Cast", "ParseToDate", "ParseToTimestamp")


def beyond_the_record(fields: DataFrame, row: DataFrame, expression: str) -> Iterator[str]:
    """Why an expression depends on more than its record, if it does.

    `row` is `fields` with the expression, in its last column.
    """
    plan = _analysed(row)
    added = {_class(step) for step in _nodes(plan)} - {
        _class(step) for step in _nodes(_analysed(fields))
    }
    if added:
        yield "looks at other records (OVER)" if "Window" in added else "makes or drops records"
    if _MOVING_LITERAL.search(expression):
        yield "has the present time in it"
    *_, last = _each(plan.expressions())
    for node in _nodes(last):
        if reason := _varies(node):
            yield reason


def _varies(node: Any) -> str | None:  # noqa: ANN401 # Java's, here and below
    name, below = _class(node), list(_each(node.children()))
    if name in _SUBQUERIES:
        return "asks another query"
    is_chance = not node.deterministic() and all(each.deterministic() for each in below)
    if is_chance or name.startswith("Current") or name in {"Now", "LocalTimestamp"}:
        return f"calls {node.prettyName()}()"
    texts = (each.toString() for each in below if _class(each) == "Literal")
    if name in _MAKES_TIME and any(map(_MOVING_TEXT.match, texts)):
        return "has the present time in it"
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
