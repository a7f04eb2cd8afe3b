"""An id out of a JSON value, by an RFC 9535 path that selects at most one node."""

from dedupe_kafka.json_path import SingularPath


class JsonId:
    """Callable: a record's value to its id, or None.

    A non-empty string is an id, by its UTF-8 bytes; so is an integer of 64 bits, told apart from the same digits
    as a string. Anything else has no id, see SingularPath.

    Raises InvalidConfig if the path is not valid or may select more than one node.
    """

    def __init__(self, path: str) -> None:
        self._find = SingularPath(path, "spec.id.path")

    def __call__(self, value: bytes | None) -> bytes | None:
        """The id in a record's value, if it has one."""
        found = self._find(value)
        if isinstance(found, str):
            return found.encode()
        # 0xff is in no UTF-8 text, so no string equals a number.
        return None if found is None else b"\xff%d" % found
