"""HOST:PORT on a command line."""

import pytest

from dedupe_httpd.address import parse_address
from dedupe_kafka.errors import InvalidConfig


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:9", ("[::1]", 9)),
    ],
)
def test_host_and_port_are_taken_apart(address: str, expected: tuple[str, int]) -> None:
    assert parse_address("--http", address) == expected


@pytest.mark.parametrize(
    "address",
    [
        "",
        "8080",
        ":8080",
        "localhost",
        "localhost:",
        "localhost:-1",
        "localhost:65536",
        "localhost:²",
    ],
)
def test_another_form_is_refused_with_the_option(address: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^--probe-address: .* is not of the form HOST:PORT"):
        parse_address("--probe-address", address)
