"""Let this process read JSON as deep as the API server stores it.

Some fields of a manifest take any JSON. Whoever lists streams, such as the operator at its start, must read all of
them: one that is too deep for Python would hide the others.
"""

import sys
from typing import Final

# Go's decoder allows a depth of 10,000; Python's takes two calls for each.
_CALLS: Final = 25_000


def allow_deep_json() -> None:
    """Raise Python's limit of nested calls; 8 MiB of stack, the usual size, suffice."""
    sys.setrecursionlimit(max(_CALLS, sys.getrecursionlimit()))
