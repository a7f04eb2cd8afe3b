"""Addresses on a command line."""

from dedupe_kafka.errors import InvalidConfig


def parse_address(option: str, address: str) -> tuple[str, int]:
    """Return host and port of an option's HOST:PORT.

    Raises InvalidConfig, which names the option, if it is not of that form.

    >>> parse_address("--http", "127.0.0.1:8080")
    ('127.0.0.1', 8080)
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidConfig(
            f"{option}: {address!r} is not of the form HOST:PORT, such as 0.0.0.0:8080"
        )
    return host, int(port)
