"""Read the address of an HTTP server from an option."""

from typing import Final

from dedupe_kafka.errors import InvalidConfig

_LAST_PORT: Final = 65535


def parse_address(option: str, address: str) -> tuple[str, int]:
    """Return host and port. Raises InvalidConfig, which names the option.

    >>> parse_address("--http", "0.0.0.0:8080")
    ('0.0.0.0', 8080)
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _LAST_PORT:
        raise InvalidConfig(
            f"{option}: {address!r} is not of the form HOST:PORT, such as 0.0.0.0:8080"
        )
    return host, int(port)
