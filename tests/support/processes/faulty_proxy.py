"""An HTTP proxy before a real server that drops, changes and replaces messages.

It serves clients of AWS' protocols: it keeps the `Host` header, which their signatures cover, and rejects nothing
itself.
"""

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import parse_qs, urlsplit

from tests.support.patience import HANG_SECONDS

_HOP_BY_HOP = {"connection", "content-length", "expect", "keep-alive", "transfer-encoding"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """A received request, with its whole body; `path` includes the query."""

    method: str
    path: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def form(self) -> dict[str, str]:
        """Return the form in the body of an EC2 request; `Action` names the operation."""
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}

    @property
    def action(self) -> str:
        """Return the operation of an EC2 request; empty for other protocols."""
        kind = self.headers.get("content-type", "")
        return self.form.get("Action", "") if "form-urlencoded" in kind else ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A response to send."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Forward = Callable[[Request], Answer]
Fault = Callable[[Request, Forward], Answer | None]
"""Handles a request instead of the server; None closes the connection without an answer."""
Behind = Callable[[Request, Forward], Answer]
Matches = Callable[[Request], bool]


class FaultyProxy:
    """Forwards to `target`, an http:// URL.

    `seen` are the received requests, in order. `behind` adds functions that the server lacks; it is called after all
    faults.
    """

    def __init__(self, target: str, behind: Behind | None = None) -> None:
        self._behind = behind
        self._target = urlsplit(target).netloc
        self._lock = Lock()
        self._faults: list[tuple[Matches, Fault, int]] = []
        self.seen: list[Request] = []
        self.url = ""

    def inject(self, matches: Matches, fault: Fault, *, times: int = 1) -> None:
        """Apply a fault to the next `times` matching requests, in order of injection."""
        with self._lock:
            self._faults.append((matches, fault, times))

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults.clear()

    @property
    def pending(self) -> int:
        """Return how many faults have not happened yet."""
        with self._lock:
            return sum(times for _, _, times in self._faults)

    def exchange(self, request: Request) -> Answer | None:
        """Answer a request; None means to close its connection."""
        with self._lock:
            self.seen.append(request)
            fault = self._take(request)
        return fault(request, self._forward) if fault else self._forward(request)

    def _take(self, request: Request) -> Fault | None:
        for number, (matches, fault, times) in enumerate(self._faults):
            if matches(request):
                self._faults[number : number + 1] = [(matches, fault, times - 1)] * (times > 1)
                return fault
        return None

    def _forward(self, request: Request) -> Answer:
        return self._behind(request, self._send) if self._behind else self._send(request)

    def _send(self, request: Request) -> Answer:
        connection = http.client.HTTPConnection(self._target, timeout=HANG_SECONDS)
        try:
            connection.putrequest(
                request.method, request.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers.items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(request.body)))
            connection.endheaders(request.body)
            given = connection.getresponse()
            dropped = _HOP_BY_HOP - ({"content-length"} if request.method == "HEAD" else set())
            kept = {
                name: value for name, value in given.getheaders() if name.lower() not in dropped
            }
            return Answer(status=given.status, body=given.read(), headers=kept)
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultyProxy

    def _respond(self) -> None:
        answer = self.proxy.exchange(self._request())
        if answer is None:
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if self.command != "HEAD":  # its Content-Length is that of the body that it does not send
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _respond  # noqa: N815 # the base class's names

    def _request(self) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        chunked = "chunked" in headers.get("transfer-encoding", "")
        body = self._chunks() if chunked else self.rfile.read(int(headers.get("content-length", 0)))
        kept = {name: value for name, value in headers.items() if name not in _HOP_BY_HOP}
        return Request(method=self.command, path=self.path, headers=kept, body=body)

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # a trailer
        return body

    def log_message(self, *_: object) -> None:
        """Log nothing: the tests report what matters."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # parallel uploads connect at the same time

    def handle_error(self, *_: object) -> None:
        """Ignore a client that dies during a request: its test handles that."""


@contextmanager
def proxying(
    target: str, *, host: str = "127.0.0.1", behind: Behind | None = None
) -> Iterator[FaultyProxy]:
    """Run a proxy within the context."""
    proxy = FaultyProxy(target, behind)
    server = _Server((host, 0), type("Handler", (_Handler,), {"proxy": proxy}))
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    proxy.url = f"http://{host}:{server.server_port}"
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()


def cut(_: Request, __: Forward) -> None:
    """Close the connection before the request arrives."""


def cut_after_the_act(request: Request, forward: Forward) -> None:
    """Execute the request, but drop its answer."""
    forward(request)


def answering(status: int, body: bytes, **headers: str) -> Fault:
    """Return a fault that answers with this response."""
    return lambda _, __: Answer(status=status, body=body, headers=headers)


def changing(change: Callable[[bytes], bytes]) -> Fault:
    """Return a fault that executes the request and changes the answer's body."""

    def fault(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        return replace(answer, body=change(answer.body))

    return fault
