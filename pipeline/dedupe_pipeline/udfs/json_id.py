"""Extract the id of a record from its JSON, for the jobs `audit` and `bootstrap`."""

from collections.abc import Callable, Sequence

import orjson


def extractor(steps: Sequence[str | int]) -> Callable[[bytes | None], bytes | None]:
    """Return the function that extracts the id below names and indices.

    It returns s and a string, or n and digits; None if there is no id.
    """

    def extract(value: bytes | None) -> bytes | None:
        try:
            node = orjson.loads(value or b"")
        except orjson.JSONDecodeError:
            return None
        for step in steps:
            if isinstance(step, str) and isinstance(node, dict):
                node = node.get(step)
            elif isinstance(step, int) and isinstance(node, list):
                node = node[step] if -len(node) <= step < len(node) else None
            else:
                return None
        return _id_of(node)

    return extract


def _id_of(node: object) -> bytes | None:
    match node:
        case bool() | "":
            return None
        case str():
            return b"s" + node.encode()
        case int():
            return b"n%d" % node
        case _:
            return None
