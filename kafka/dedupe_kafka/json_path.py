"""Extraction of a value from a record's JSON, by a singular RFC 9535 path.

The ids and the chunk filters use it. A singular path selects at most one node.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import orjson

from dedupe_crds.json_path import SINGULAR_PATH_RULE, is_singular_path
from dedupe_kafka.errors import InvalidConfig

ABSENT: Final = object()
"""What a document has at a path where it has nothing, not even null."""


class SingularPath:
    """A function from a record's value to the text or whole number at a path, or None.

    A number is whole if it is an integer of 64 bits: floats lose digits when parsed, and so do larger integers, so
    that two different numbers could look like one. Objects and arrays have no canonical form.

    `field` names the path's place in messages. Raises InvalidConfig for a path that is not valid, or that may select
    more than one node.
    """

    def __init__(self, path: str, field: str) -> None:
        self._steps = _singular_steps(path, field)

    @property
    def normalized(self) -> str:
        """Return the same path in its normalized spelling: $["order"]["id"].

        >>> SingularPath("$.items[0]['id']", "path").normalized
        '$["items"][0]["id"]'
        """
        return "$" + "".join(f"[{json.dumps(step, ensure_ascii=False)}]" for step in self._steps)

    def __call__(self, value: bytes | None) -> str | int | None:
        """Return the text or number in a record's value, None also for invalid JSON."""
        if value is None:
            return None
        try:
            node = self.node(orjson.loads(value))
        except orjson.JSONDecodeError:
            return None
        # Python would also take True for 1.
        if isinstance(node, str | int) and not isinstance(node, bool):
            return node
        return None

    def node(self, document: Any) -> Any:  # noqa: ANN401 (any JSON)
        """Return what a parsed document has at the path, or ABSENT."""
        for step in self._steps:
            # Checked by type: Python would also index into a string.
            if isinstance(step, str):
                document = document.get(step, ABSENT) if isinstance(document, dict) else ABSENT
            elif isinstance(document, list) and -len(document) <= step < len(document):
                document = document[step]
            else:
                return ABSENT
        return document


def _singular_steps(path: str, field: str) -> Sequence[str | int]:
    if not is_singular_path(path):
        raise InvalidConfig(f"{field}: {path!r} {SINGULAR_PATH_RULE}")
    # 0.1 s of a worker's start, which the streams without a path do not need.
    import jsonpath  # noqa: PLC0415
    from jsonpath.selectors import IndexSelector, NameSelector  # noqa: PLC0415

    query = jsonpath.compile(path, strict=True)
    assert isinstance(query, jsonpath.JSONPath)  # noqa: S101 (for the type checker: not several queries)
    steps: list[str | int] = []
    for segment in query.segments:
        for selector in segment.selectors:  # exactly one, as the query is singular
            if isinstance(selector, NameSelector):
                steps.append(selector.name)
            elif isinstance(selector, IndexSelector):
                steps.append(selector.index)
    return steps
