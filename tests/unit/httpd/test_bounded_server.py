"""The bounded HTTP server, over real sockets: neither idle, slow nor large requests keep others out."""

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from threading import Event, Thread
from typing import Any
from unittest.mock import Mock

import pytest

from dedupe_httpd import bounded_server
from dedupe_httpd.bounded_server import BoundedServer
from dedupe_kafka.errors import InvalidConfig
from tests.support.patience import HANG_SECONDS, patience
from tests.support.processes.loopback import has_ipv6

START = Callable[[str, list[tuple[str, str]]], object]
MAX_BODY = 1000
LARGE = 12 << 20
"""Bytes, more than the buffers of a connection take."""


class App:
    """Answers with the length of the body; /wait answers once it is let go."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.waiting = Event()
        self.go = Event()

    def __call__(self, environ: dict[str, Any], start: START) -> list[bytes]:
        self.bodies.append(environ["wsgi.input"].read())
        if environ["PATH_INFO"] == "/wait":
            self.waiting.set()
            self.go.wait(HANG_SECONDS)
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"x" * LARGE if environ["PATH_INFO"] == "/large" else b"short"]


@pytest.fixture
def app() -> Iterator[App]:
    app = App()
    yield app
    app.go.set()


@pytest.fixture
def server(app: App) -> BoundedServer:
    server = BoundedServer(
        app, "127.0.0.1", 0, threads=2, max_body_bytes=MAX_BODY, max_connections=10
    )
    Thread(target=server.run, daemon=True).start()
    return server


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as clients:
        yield clients


def connect(clients: ExitStack, server: BoundedServer, sent: bytes = b"") -> socket.socket:
    address = (server.effective_host, int(server.effective_port))
    client = clients.enter_context(socket.create_connection(address, timeout=HANG_SECONDS))
    client.sendall(sent)
    return client


def received(client: socket.socket) -> bytes:
    """Return all that comes until the server closes."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def ask(server: BoundedServer, request: bytes) -> bytes:
    with ExitStack() as clients:
        return received(connect(clients, server, request))


GET = b"GET / HTTP/1.0\r\n\r\n"
OK = b"HTTP/1.0 200 OK"


@pytest.mark.parametrize(
    "sent", [b"", b"GET /hea", b"POST / HTTP/1.1\r\nContent-Length: 900\r\n\r\nx"]
)
def test_any_number_of_unfinished_requests_leaves_room_for_another(
    server: BoundedServer, clients: ExitStack, sent: bytes
) -> None:
    for _ in range(150):
        connect(clients, server, sent)
    assert ask(server, GET).startswith(OK)


def test_a_request_that_is_handled_is_not_closed_for_another(
    server: BoundedServer, app: App, clients: ExitStack
) -> None:
    served = connect(clients, server, b"GET /wait HTTP/1.0\r\n\r\n")
    assert app.waiting.wait(HANG_SECONDS)
    for _ in range(150):
        connect(clients, server)
    app.go.set()
    assert received(served).startswith(OK)


def test_connections_that_are_all_handled_let_others_wait(
    server: BoundedServer, app: App, clients: ExitStack
) -> None:
    served = [connect(clients, server, b"GET /wait HTTP/1.0\r\n\r\n") for _ in range(12)]
    assert app.waiting.wait(HANG_SECONDS)
    app.go.set()
    assert all(received(each).startswith(OK) for each in served)


def test_a_request_has_a_time_in_all_and_not_for_each_byte(
    server: BoundedServer, clients: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_server, "_REQUEST_SECONDS", 1.0)
    client = connect(clients, server, b"GET / HTTP/1.0\r\nX-Slow: ")
    client.settimeout(0.05)
    deadline = patience(30)
    while True:
        assert not deadline.expired, "the connection is still open"
        try:
            client.sendall(b"x")
            if not client.recv(1):
                return
        except TimeoutError:
            continue
        except ConnectionError:
            return


def test_a_client_that_does_not_take_its_answer_is_closed(
    server: BoundedServer, app: App, clients: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_server, "_REQUEST_SECONDS", 0.5)
    connect(clients, server, b"GET /large HTTP/1.1\r\n\r\n")
    deadline = patience(30)
    while not app.bodies or server.active_channels:
        assert deadline.pause(0.05), "a connection is still open"


def test_a_connection_may_be_used_again(server: BoundedServer) -> None:
    client = HTTPConnection(server.effective_host, int(server.effective_port), timeout=HANG_SECONDS)
    with closing(client):
        client.connect()
        first = client.sock
        for _ in range(3):
            client.request("POST", "/", body=b"x")
            assert client.getresponse().read() == b"short"
        assert client.sock is first


def chunks(total: int) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (100, b"x" * 100) for _ in range(total // 100))
    return b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + body


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (b"POST / HTTP/1.0\r\nContent-Length: 1001\r\n\r\n", b" 413 "),
        (b"POST / HTTP/1.0\r\nContent-Length: 1073741823\r\n\r\n", b" 413 "),
        (chunks(2000), b" 413 "),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;" + b"x" * 2000, b" 413 "),
        (b"GET / HTTP/1.0\r\nX-Long: " + b"x" * (16 << 10), b" 431 "),
    ],
)
def test_what_is_too_large_is_refused_before_a_handler_sees_it(
    server: BoundedServer, app: App, request_: bytes, why: bytes
) -> None:
    assert why in ask(server, request_).splitlines()[0]
    assert app.bodies == []


@pytest.mark.parametrize(
    "request_",
    [
        b"POST / HTTP/1.0\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000,
        chunks(500) + b"0\r\n\r\n",
    ],
)
def test_what_is_within_the_bounds_is_read_in_memory(
    server: BoundedServer, app: App, request_: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_file(*_: object, **__: object) -> None:
        raise AssertionError("a file")

    monkeypatch.setattr("tempfile.TemporaryFile", no_file)
    assert b" 200 OK" in ask(server, request_).splitlines()[0]
    assert len(app.bodies[0]) in {500, 1000}


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1", "no such host"])
def test_an_address_that_cannot_be_used_is_named(
    app: App, server: BoundedServer, host: str
) -> None:
    port = int(server.effective_port)
    with pytest.raises(InvalidConfig, match=f"^{host}:{port} cannot be used: "):
        BoundedServer(app, host, port, threads=1)


def assert_answers(server: BoundedServer, host: str) -> None:
    Thread(target=server.run, daemon=True).start()
    client = HTTPConnection(host, int(server.effective_port), timeout=HANG_SECONDS)
    client.request("GET", "/")
    assert client.getresponse().status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", *(["::1"] if has_ipv6() else [])])
def test_all_addresses_are_those_of_ipv6_too(app: App, host: str) -> None:
    assert_answers(BoundedServer(app, "0.0.0.0", 0, threads=1), host)  # noqa: S104 # what is tested


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EAFNOSUPPORT, "no such family"),
        OSError(errno.EADDRNOTAVAIL, "no address"),
        ValueError("dualstack_ipv6 not supported on this platform"),
    ],
    ids=str,
)
def test_all_addresses_are_those_of_ipv4_where_there_is_no_ipv6(
    app: App, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(socket, "create_server", Mock(side_effect=error))
    assert_answers(BoundedServer(app, "0.0.0.0", 0, threads=1), "127.0.0.1")  # noqa: S104 # what is tested


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "0.0.0.0"),  # noqa: S104 # what is tested
        *([("::1", "[::1]"), ("[::1]", "[::1]")] if has_ipv6() else []),
    ],
)
def test_its_address_can_be_part_of_a_url(app: App, host: str, shown: str) -> None:
    server = BoundedServer(app, host, 0, threads=1)
    assert server.address == f"{shown}:{server.effective_port}"


def test_all_addresses_cannot_be_used_where_one_of_them_is_taken(
    app: App, server: BoundedServer
) -> None:
    port = int(server.effective_port)
    with pytest.raises(InvalidConfig, match=f"^0.0.0.0:{port} cannot be used: .*in use"):
        BoundedServer(app, "0.0.0.0", port, threads=1)  # noqa: S104 # what is tested
