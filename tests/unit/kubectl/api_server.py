"""A small API server: it answers what it was given, and remembers what it was asked."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

STREAMS = "/apis/dedupestream.io/v1alpha1/namespaces/shop/dedupestreams"
SNAPSHOTS = "/apis/dedupestream.io/v1alpha1/namespaces/shop/dedupesnapshots"
PODS = "/api/v1/namespaces/shop/pods"

Answer = tuple[int, Any]
_ABSENT: Answer = (404, "404 page not found")


def refused(code: int, message: str, name: str | None = None) -> Answer:
    return code, {"kind": "Status", "message": message, "details": {"name": name} if name else {}}


class ApiServer:
    """Answers by path: a status code and a body, or a function that yields the parts of one.

    `patches` are the changes it was sent, `created` the objects, `tokens` those for workers.

    `patch_answers` are the answers to the first changes of a path, instead of its object.

    `then` are the answers that follow, one after another; `after_patch` says what they are once a path was
    changed.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.answers: dict[str, Answer] = {
            "/api/v1/namespaces/shop/events": (200, {"items": []}),
            "/api/v1/pods": (200, {"items": []}),
        }
        self.patches: list[tuple[str, str, dict[str, Any]]] = []
        self.created: list[tuple[str, dict[str, Any]]] = []
        self.tokens: list[str] = []
        self.then: dict[str, list[Answer]] = {}
        self.after_patch: dict[str, Callable[[dict[str, Any]], list[Answer]]] = {}
        self.patch_answers: dict[str, list[Answer]] = {}
        self.queries: list[tuple[str, dict[str, list[str]]]] = []

    def holds(self, *streams: dict[str, Any], pods: tuple[dict[str, Any], ...] = ()) -> None:
        self.answers[STREAMS] = (200, {"items": list(streams)})
        self.answers["/apis/dedupestream.io/v1alpha1/dedupestreams"] = self.answers[STREAMS]
        for stream in streams:
            self.answers[f"{STREAMS}/{stream['metadata']['name']}"] = (200, stream)
        self.answers[PODS] = (200, {"items": list(pods)})

    def holds_snapshots(self, *snapshots: dict[str, Any]) -> None:
        self.answers[SNAPSHOTS] = (200, {"items": list(snapshots)})
        self.answers["/apis/dedupestream.io/v1alpha1/dedupesnapshots"] = self.answers[SNAPSHOTS]
        for snapshot in snapshots:
            self.answers[f"{SNAPSHOTS}/{snapshot['metadata']['name']}"] = (200, snapshot)

    def answer(self, path: str) -> Answer:
        """The answer that is due, after which the next one is."""
        given = self.answers.get(path, _ABSENT)
        if following := self.then.get(path):
            self.answers[path] = following.pop(0)
        return given

    def worker_says(self, pod: str, code: int, body: object) -> None:
        self.answers[f"{PODS}/{pod}:8080/proxy/status"] = (code, body)


def write_kubeconfig(path: Path, url: str) -> None:
    """Write one with two contexts, the current one in namespace shop."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [
            {"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "shop"}},
            {"name": "other", "context": {"cluster": "c", "user": "u"}},
        ],
    }
    path.write_text(yaml.safe_dump(config))


@contextmanager
def api_server(kubeconfig: Path) -> Iterator[ApiServer]:
    """Yield a running one."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    write_kubeconfig(kubeconfig, f"http://127.0.0.1:{server.server_port}")
    api = ApiServer(kubeconfig)
    server.api = api  # type: ignore[attr-defined] # the handler finds it there
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = urlsplit(self.path)
        api: ApiServer = self.server.api  # type: ignore[attr-defined]
        api.queries.append((path.path, parse_qs(path.query)))
        self._reply(*api.answer(path.path))

    def do_POST(self) -> None:
        api: ApiServer = self.server.api  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = urlsplit(self.path).path
        api.created.append((path, body))
        api.tokens += self.headers.get_all("X-Admin-Token", [])
        code, answer = api.answers.get(f"POST {path}", (201, body))
        self._reply(code, answer)

    def _reply(self, code: int, body: object) -> None:
        if callable(body):
            self._send_parts(code, body())
            return
        text = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _send_parts(self, code: int, parts: Iterator[bytes]) -> None:
        """Send a body that ends with the connection, or once nobody reads it."""
        self.send_response(code)
        self.end_headers()
        with suppress(ConnectionError):
            for part in parts:
                self.wfile.write(part)

    def do_PATCH(self) -> None:
        api: ApiServer = self.server.api  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = urlsplit(self.path).path
        api.patches.append((path, self.headers["Content-Type"], body))
        if due := api.patch_answers.get(path):
            self._reply(*due.pop(0))
            return
        answer = api.answers.get(path, _ABSENT)
        if path in api.after_patch:  # before the reply: who has it asks for what has come of it
            api.answers[path], *following = api.after_patch[path](body)
            api.then[path] = following
        self._reply(*answer)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""
