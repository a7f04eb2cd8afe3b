"""An id out of a JSON value, by an RFC 9535 path that selects at most one node."""

from collections.abc import Sequence

import jsonpath
import orjson
from jsonpath import JSONPath
from jsonpath.selectors import IndexSelector, NameSelector

from dedupe_kafka.errors import InvalidConfig


class JsonId:
    """Callable: a record's value to its id, or None.

    A non-empty string is an id, by its UTF-8 bytes; so is an integer of 64 bits, told apart from the same digits
    as a string. Anything else has no id: floats lose digits when parsed, and so do larger integers, so that two
    different messages could look like one; objects and arrays have no canonical form.

    Raises InvalidConfig if the path is not valid or may select more than one node.
    """

    def __init__(self, path: str) -> None:
        self._steps = _singular_steps(path)

    def __call__(self, value: bytes | None) -> bytes | None:
        """The id in a record's value, if it has one."""
        if value is None:
            return None
        try:
            node = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
        for step in self._steps:
            # Checked by type: Python would also index into a string, or take True for 1.
            if isinstance(step, str):
                node = node.get(step) if isinstance(node, dict) else None
            elif isinstance(node, list) and -len(node) <= step < len(node):
                node = node[step]
            else:
                return None
        return _encode(node)


def _encode(node: object) -> bytes | None:
    if isinstance(node, str):
        return node.encode()
    if isinstance(node, int) and not isinstance(node, bool):
        return b"\xff%d" % node  # 0xff is in no UTF-8 text, so no string equals it
    return None


def _singular_steps(path: str) -> Sequence[str | int]:
    allowed = "a path of names and indices that begins with $, such as $.order.id or $['items'][0]"
    try:
        query = jsonpath.compile(path, strict=True)
    except jsonpath.JSONPathError as error:
        raise InvalidConfig(
            f"spec.id.path: {path!r} is not a JSONPath: {error.args[0]}; use {allowed}"
        ) from error
    if not isinstance(query, JSONPath) or not query.singular_query() or not query.segments:
        raise InvalidConfig(f"spec.id.path: {path!r} may select more than one value; use {allowed}")
    steps: list[str | int] = []
    for segment in query.segments:
        for selector in segment.selectors:  # exactly one, as the query is singular
            if isinstance(selector, NameSelector):
                steps.append(selector.name)
            elif isinstance(selector, IndexSelector):
                steps.append(selector.index)
    return steps
