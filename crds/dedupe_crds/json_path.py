"""The JSON paths that a manifest may have: the singular queries of RFC 9535.

A singular query selects at most one value: names and indices, and at least one of them. `dedupe_kafka.json_path`
compiles it. Invariant: the model, the CustomResourceDefinition and the compiler accept the same paths.
"""

import re
from typing import Final

_BLANK: Final = r"[ \t\n\r]*"
# Letters, _ and characters beyond ASCII, then digits and - as well. RE2 and Python have no common escape for U+FFFD, so
# it stands here itself; the compiler takes the characters after it in quotes only.
_BEYOND_ASCII: Final = "\\x80-\N{REPLACEMENT CHARACTER}"
_NAME: Final = rf"[A-Za-z_{_BEYOND_ASCII}][A-Za-z0-9_{_BEYOND_ASCII}-]*"
_SURROGATES: Final = r"[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}"
_UNICODE: Final = rf"u(?:[0-9A-CE-Fa-ce-f][0-9A-Fa-f]{{3}}|[Dd][0-7][0-9A-Fa-f]{{2}}|{_SURROGATES})"


def _quoted(quote: str) -> str:
    return rf"{quote}(?:[^\x00-\x1f{quote}\\]|\\(?:[bfnrt/\\{quote}]|{_UNICODE}))*{quote}"


_INDEX: Final = r"0|-?[1-9][0-9]{0,14}"
_SEGMENT: Final = (
    rf"\.{_NAME}|\[{_BLANK}(?:{_quoted(chr(34))}|{_quoted(chr(39))}|{_INDEX}){_BLANK}\]"
)

SINGULAR_PATH: Final = rf"\$(?:{_BLANK}(?:{_SEGMENT}))+"
"""A regular expression that means the same in RE2 and in Python."""

SINGULAR_PATH_RULE: Final = (
    "must be a JSONPath of names and indices that begins with $, such as $.order.id or "
    "$['items'][0]"
)


def is_singular_path(path: str) -> bool:
    """Return whether a path is a singular query with a name or an index.

    >>> is_singular_path("$.order['id'][0]"), is_singular_path("$..id"), is_singular_path("$")
    (True, False, False)
    """
    return re.fullmatch(SINGULAR_PATH, path) is not None
