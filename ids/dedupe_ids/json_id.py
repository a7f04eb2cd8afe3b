"""Extract an id from a JSON value, by an RFC 9535 path to at most one node."""

from dedupe_kafka.json_path import SingularPath


class JsonId:
    """Callable: a record's value to its id, or None.

    A non-empty string is an id, by its UTF-8 bytes; so is an integer of 64 bits, which differs from the same digits
    as a string. Anything else has no id, see SingularPath.

    Raises InvalidConfig if the path is not valid or may select more than one node.
    """

    def __init__(self, path: str) -> None:
        self._find = SingularPath(path, "spec.id.path")

    def __call__(self, value: bytes | None) -> bytes | None:
        """Return the id in a record's value; None if it has no id."""
        found = self._find(value)
        if isinstance(found, str):
            return found.encode()
        # 0xff is in no UTF-8 text, so no string equals a number.
        return None if found is None else b"\xff%d" % found
