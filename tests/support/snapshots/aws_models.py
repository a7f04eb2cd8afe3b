"""The models of AWS' services, parsed once in a test process.

Each session of botocore parses its own copies. That of EC2 costs a CPU second, and each operator that a test starts
anew makes a session: it was two thirds of those tests' time. botocore shares a model between all clients of a
session, so it does not change one.
"""

from functools import cache

from botocore.loaders import JSONFileLoader

_parse = JSONFileLoader.load_file


@cache
def _parsed(path: str) -> object:
    return _parse(JSONFileLoader(), path)


def parse_once() -> None:
    """Have all later sessions of this process share the parsed models."""
    setattr(JSONFileLoader, "load_file", lambda _, file_path: _parsed(file_path))  # noqa: B010 # for all sessions
