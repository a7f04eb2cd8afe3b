"""The HTTP client of tests that ask processes on this machine, and whether it has IPv6."""

import socket
from typing import Final

import httpx

HTTP: Final = httpx.Client(trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
"""Shared, as httpx.get loads all certificates of the machine at each call: 40 ms of CPU, in loops that poll.

Each request has a connection of its own, as a process may be another one by the next.
"""


def has_ipv6() -> bool:
    """Return whether ::1 can be used."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
