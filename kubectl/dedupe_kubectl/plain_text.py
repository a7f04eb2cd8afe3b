"""Replace what controls a terminal in JSON from the cluster.

The client of the API server calls it. Users write names, messages and events, and their pods answer as workers: such a
text must not move the cursor of someone who reads it, or change the title or clipboard of the terminal.
"""

import re
from typing import Final

# An escape of JSON is taken whole, so that a backslash which is escaped begins none. Line ends and tabs stay.
_CONTROLS: Final = re.compile(
    rb"""(?P<control>\\u00(?:0[0-8bcdef]|1[0-9a-f]|7f|[89][0-9a-f])|\\[bfr]|\x7f|\xc2[\x80-\x9f])|\\.""",
    re.IGNORECASE,
)


def without_controls(text: bytes) -> bytes:
    """Return a JSON text with a sign in the place of each control character."""
    return _CONTROLS.sub(lambda found: rb"\ufffd" if found["control"] else found[0], text)
