"""The worker's HTTP API. `process` serves it.

    GET  /healthz      200 while the loop runs (also while it waits for a retry), else 503
    GET  /readyz       200 when caught up and running, else 503 with the reason; `degraded` lists what is not as
                       promised although the worker runs, and never changes the status
    GET  /metrics      Prometheus text
    GET  /status       WorkerStatus as JSON
    POST /checkpoint   write a checkpoint; answers with its CheckpointStatus
    POST /snapshots    and below: see snapshots/http_api.py
    POST /forget       {"ids": ["…"]}: forget ids, so that their next copy passes; answers {"forgotten": n, "note": "…"}
    POST /lookup       {"ids": ["…"]}: what is known about ids; answers {"ids": [IdStatus, …]}, in their order
    POST /reconcile    {"request": "…", "full": false}: reconcile with the output topic now; answers 202 with
                       ComparisonStatus; the same request again gets the same answer and is run once; 409 during another

The first two are also served at a dedicated address, see `make_probe_app`: Kubernetes restarts a worker whose
probes fail, and no admin call, nor any number of connections to this server, may cause that.

POSTs need `Authorization: Bearer <token>`; or `X-Admin-Token: <token>`, through a proxy that uses the other header
itself, such as Kubernetes' API server. Some wait for the loop or the bucket, so only a few run at once, and threads
remain for GET; the others are refused as Busy.
"""

import hmac
import json
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Annotated, Final

import falcon
from prometheus_client import CollectorRegistry
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from dedupe_httpd.bounded_server import MAX_BODY_BYTES
from dedupe_httpd.probes import Metrics, Status, add_probes
from dedupe_kafka.errors import StreamError
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.admin.reconcile_requests import ReconcileRequests, ReconcileRunning
from dedupe_worker.errors import OutputUnread
from dedupe_worker.snapshots.http_api import add_routes as add_snapshots
from dedupe_worker.status import WorkerState

if TYPE_CHECKING:
    from dedupe_worker.snapshots.upload_manager import UploadManager

_COMMAND_SECONDS: Final = 60.0
_ADMIN_CALLS: Final = 4
_MAX_IDS: Final = 1000
_FORGOTTEN_UNTIL: Final = (
    "the output topic still has their records: a rebuild of the store, a full reconcile, or the restore of an older "
    "snapshot or checkpoint remembers them again"
)


def read_token(path: Path | None) -> str | None:
    """Return the admin token of a mounted file; None without one. Raises OSError."""
    return path.read_text().strip() or None if path else None


def make_app(
    worker_state: WorkerState,
    commands: CommandQueue,
    registry: CollectorRegistry,
    token: str | None,
    *,
    requests: ReconcileRequests,
    upload_manager: "UploadManager | None" = None,
) -> "falcon.App[falcon.Request, falcon.Response]":
    """Return the WSGI application."""
    app = falcon.App(middleware=[_AdminCalls(token)])
    add_probes(app, worker_state)
    app.add_route("/metrics", Metrics(registry))
    app.add_route("/status", Status(worker_state))
    app.add_route("/checkpoint", _Checkpoint(commands))
    app.add_route("/forget", _Forget(commands))
    app.add_route("/lookup", _Lookup(commands))
    app.add_route("/reconcile", _Reconcile(requests))
    app.add_error_handler(TimeoutError, _busy)
    app.add_error_handler(StreamError, _failed)
    add_snapshots(app, partial(commands.call, timeout_seconds=_COMMAND_SECONDS), upload_manager)
    return app


def make_probe_app(worker_state: WorkerState) -> "falcon.App[falcon.Request, falcon.Response]":
    """Return the WSGI application for probes: GET /healthz and GET /readyz only."""
    app = falcon.App()
    add_probes(app, worker_state)
    return app


class _AdminCalls:
    """Every POST is an admin call: it needs the token, and only a few run at once."""

    def __init__(self, token: str | None) -> None:
        self._expected = f"Bearer {token}".encode() if token else None
        self._places = BoundedSemaphore(_ADMIN_CALLS)

    def process_request(self, request: falcon.Request, _response: falcon.Response) -> None:
        if request.method != "POST":
            return
        self._authenticate(request)
        if not self._places.acquire(blocking=False):
            raise falcon.HTTPServiceUnavailable(
                title="Busy", description="other admin calls are running", retry_after=5
            )
        request.context.has_place = True

    def process_response(
        self,
        request: falcon.Request,
        _response: falcon.Response,
        _resource: object,
        _succeeded: bool,
    ) -> None:
        if getattr(request.context, "has_place", False):
            self._places.release()

    def _authenticate(self, request: falcon.Request) -> None:
        if self._expected is None:
            raise falcon.HTTPForbidden(
                title="Admin calls are off", description="start the worker with --admin-token-file"
            )
        token = request.get_header("X-Admin-Token")
        given = (f"Bearer {token}" if token else request.get_header("Authorization") or "").encode()
        if not hmac.compare_digest(given, self._expected):
            raise falcon.HTTPUnauthorized(
                title="Admin token needed", description="send Authorization: Bearer <token>"
            )


class _Checkpoint:
    def __init__(self, commands: CommandQueue) -> None:
        self._commands = commands

    def on_post(self, _request: falcon.Request, response: falcon.Response) -> None:
        made = self._commands.call(lambda store: store.checkpoint(), _COMMAND_SECONDS)
        if made is None:
            raise falcon.HTTPConflict(
                title="NothingToCheckpoint", description="the store is still empty"
            )
        response.content_type = falcon.MEDIA_JSON
        response.text = made.model_dump_json(by_alias=True)


class _Forget:
    def __init__(self, commands: CommandQueue) -> None:
        self._commands = commands

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        raw_ids = _read_ids(request)
        try:
            forgotten = self._commands.call(lambda store: store.forget(raw_ids), _COMMAND_SECONDS)
        except OutputUnread as error:
            raise falcon.HTTPServiceUnavailable(
                title=error.reason, description=str(error), retry_after=5
            ) from error
        response.media = {"forgotten": forgotten, "note": _FORGOTTEN_UNTIL}


class _Lookup:
    def __init__(self, commands: CommandQueue) -> None:
        self._commands = commands

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        raw_ids = _read_ids(request)
        found = self._commands.call(lambda store: store.lookup(raw_ids), _COMMAND_SECONDS)
        response.media = {"ids": [each.model_dump(mode="json", by_alias=True) for each in found]}


class _ReconcileBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    request: Annotated[str, Field(min_length=1, max_length=100)]
    full: StrictBool = False


class _Reconcile:
    def __init__(self, requests: ReconcileRequests) -> None:
        self._requests = requests

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        try:
            body = _ReconcileBody.model_validate_json(_read_body(request))
        except ValidationError as error:
            raise falcon.HTTPBadRequest(
                description='send JSON: {"request": "…", "full": false}'
            ) from error
        try:
            status = self._requests.ask(body.request, full=body.full)
        except ReconcileRunning as error:
            raise falcon.HTTPConflict(
                title="Busy", description=f"reconcile {error} is not done yet; see /status"
            ) from error
        response.status = falcon.HTTP_202
        response.content_type = falcon.MEDIA_JSON
        response.text = status.model_dump_json(by_alias=True)


def _read_body(request: falcon.Request) -> bytes:
    return request.bounded_stream.read(MAX_BODY_BYTES)


def _read_ids(request: falcon.Request) -> list[bytes]:
    try:
        body = json.loads(_read_body(request))
    except (ValueError, RecursionError) as error:
        raise falcon.HTTPBadRequest(description='send JSON: {"ids": ["…"]}') from error
    ids = body.get("ids") if isinstance(body, dict) else None
    if (
        not isinstance(ids, list)
        or not 0 < len(ids) <= _MAX_IDS
        or not all(isinstance(i, str) and i for i in ids)
    ):
        raise falcon.HTTPBadRequest(description=f'send {{"ids": [...]}} with 1 to {_MAX_IDS} texts')
    try:
        return [each.encode() for each in ids]
    except UnicodeEncodeError as error:
        raise falcon.HTTPBadRequest(
            description="an id contains half of a surrogate pair"
        ) from error


def _busy(
    _request: falcon.Request, _response: falcon.Response, _error: Exception, _params: object
) -> None:
    raise falcon.HTTPServiceUnavailable(
        title="Busy",
        description="the worker was too busy to run the command between two transactions; see /readyz",
        retry_after=5,
    )


def _failed(
    _request: falcon.Request, _response: falcon.Response, error: Exception, _params: object
) -> None:
    assert isinstance(error, StreamError)  # noqa: S101 (registered for that class)
    raise falcon.HTTPInternalServerError(title=error.reason, description=str(error))
