"""Free ports for servers that start a moment later."""

import socket

from dedupe_local.servers.kafka import HOST, free_ports

MANY = 50


def outgoing_port() -> int:
    """Return a port that this system gives to an outgoing connection."""
    with (
        socket.create_server((HOST, 0)) as server,
        socket.create_connection(server.getsockname()) as out,
    ):
        port: int = out.getsockname()[1]
        return port


def test_they_differ_and_can_be_listened_on() -> None:
    ports = free_ports(MANY)
    assert len(set(ports)) == MANY
    servers = [socket.create_server((HOST, port)) for port in ports]
    assert not set(free_ports(MANY)) & set(ports), "they are taken now"
    for server in servers:
        server.close()


def test_no_outgoing_connection_takes_one() -> None:
    assert max(free_ports(MANY)) < min(outgoing_port() for _ in range(MANY))


def test_one_that_is_not_used_yet_is_not_given_again() -> None:
    given = [port for _ in range(100) for port in free_ports(10)]
    assert len(set(given)) == len(given)
