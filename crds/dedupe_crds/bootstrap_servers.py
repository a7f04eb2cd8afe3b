"""The form of bootstrap servers, in manifests, options and clients.

Spark's executors import it, so it needs Python alone.
"""

import re
import reprlib
from typing import Final

PORT: Final = (
    r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
)
HOST: Final = r"([a-zA-Z0-9_]([a-zA-Z0-9._-]*[a-zA-Z0-9_])?|\[[0-9a-fA-F:.]+\])"
SERVERS: Final = rf"{HOST}:{PORT}(,{HOST}:{PORT})*"
LONGEST: Final = 2048
# librdkafka takes a server with another protocol than security.protocol for none at all, and says nothing.
MUST_BE: Final = (
    "must be host:port, or several separated by commas, with no spaces between and no protocol such as SSL:// before: "
    "that is the client property security.protocol"
)


def check_bootstrap_servers(text: str) -> str:
    """Return bootstrap servers that have the form of those in a manifest.

    >>> check_bootstrap_servers("kafka:9092,[::1]:9092")
    'kafka:9092,[::1]:9092'

    Raises:
        ValueError: they have another form, such as a host without a port.
    """
    if len(text) > LONGEST or re.fullmatch(SERVERS, text) is None:
        raise ValueError(f"{reprlib.repr(text)} {MUST_BE}")
    return text
