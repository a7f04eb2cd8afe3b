"""A small HTTP server that remembers what it was asked, and answers in JSON."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str | None
    body: Any


Answer = Callable[[Request], tuple[int, object]]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Serve while the context lasts; gives the address. Text is sent as it is, all else as JSON."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _respond(self) -> None:
            status, given = answer(self._request())
            text = given if isinstance(given, str) else json.dumps(given)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _respond  # noqa: N815 # the base class's names

        def _request(self) -> Request:
            split = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length)
            return Request(
                method=self.command,
                path=split.path,
                query=dict(parse_qsl(split.query)),
                content_type=self.headers.get("Content-Type"),
                body=json.loads(text) if text else None,
            )

        def log_message(self, *_: object) -> None:
            """Tests say what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
