"""Serve the operator's health and metrics over HTTP.

GET /healthz   200 while reconciles end regularly, else 503
GET /readyz    200 once the process has started, as leader or as stand-by
GET /metrics   Prometheus text
"""

import logging
from collections.abc import Callable
from threading import Thread
from typing import Final

import falcon
from prometheus_client import exposition

from dedupe_httpd.bounded_server import BoundedServer
from dedupe_operator import metrics

_HEALTHY_SECONDS: Final = 180.0  # longer than any reconcile: each of its calls is bounded
_BODY_BYTES: Final = 1024

log = logging.getLogger(__name__)


def serve(host: str, port: int, idle_seconds: Callable[[], float]) -> None:
    """Serve in a background thread, and log the address: port 0 takes any free port.

    Raises InvalidConfig if the address cannot be used.
    """
    app = make_app(idle_seconds)
    server = BoundedServer(app, host, port, threads=4, max_body_bytes=_BODY_BYTES)
    Thread(target=server.run, name="http", daemon=True).start()
    log.info("HTTP at %s", server.address)


def make_app(
    idle_seconds: Callable[[], float],
) -> "falcon.App[falcon.Request, falcon.Response]":
    """Return the WSGI application.

    `idle_seconds` returns the time since the last reconcile ended.
    """
    app = falcon.App()
    app.add_route("/healthz", _Health(idle_seconds))
    app.add_route("/readyz", _Ready())
    app.add_route("/metrics", _Metrics())
    return app


class _Health:
    def __init__(self, idle_seconds: Callable[[], float]) -> None:
        self._idle_seconds = idle_seconds

    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        age = self._idle_seconds()
        response.status = falcon.HTTP_200 if age < _HEALTHY_SECONDS else falcon.HTTP_503
        response.media = {"lastReconcileAgeSeconds": round(age, 3)}


class _Ready:
    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        response.media = {"leader": metrics.LEADER._value.get() == 1}  # noqa: SLF001 # the library has no other way to read it


class _Metrics:
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        encode, content_type = exposition.choose_encoder(request.get_header("Accept") or "")
        response.content_type = content_type
        response.data = encode(metrics.registry)
