"""Read an answer whole, with a bound on its size and a deadline for all of it.

The client of the API server calls it. Who may create pods decides what answers behind the API server's proxy.
"""

from typing import Final

import urllib3

from dedupe_crds.deadline import Deadline
from dedupe_crds.formatting import size

_PART_BYTES: Final = 1 << 16


class Unreadable(Exception):
    """An answer is too long, or was not complete in time."""


def read_whole(answer: urllib3.BaseHTTPResponse, longest_bytes: int, deadline: Deadline) -> bytes:
    """Return the body of an answer.

    Raises:
        Unreadable: it is too long, or was not complete in time.
        urllib3.exceptions.HTTPError: the connection broke.
    """
    content = bytearray()
    # Raw, because a few kilobytes could be decompressed to gigabytes. Each part is what has arrived, however little.
    while part := answer.read1(_PART_BYTES, decode_content=False):
        content += part
        if len(content) > longest_bytes:
            answer.close()
            raise Unreadable(f"its answer is longer than {size(longest_bytes)} bytes")
        if deadline.expired:
            answer.close()
            raise Unreadable(f"its answer was not complete after {deadline.seconds:.0f} s")
    return bytes(content)
