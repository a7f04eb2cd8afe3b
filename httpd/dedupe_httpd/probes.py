"""Handlers of GET that every process has: probes, /status and /metrics."""

from typing import TYPE_CHECKING, Final, Protocol

import falcon
from prometheus_client import CollectorRegistry, exposition
from pydantic import BaseModel

if TYPE_CHECKING:
    from falcon import App, Request, Response

_HEALTHY_SECONDS: Final = 180.0  # longer than any bounded call to Kafka
_SHOWN: Final = {"ready", "phase", "reason", "message", "degraded", "warnings"}


class ProcessState(Protocol):
    """State of a process; its status has the field `ready`."""

    @property
    def heartbeat_age_seconds(self) -> float:
        """Return the seconds since the last heartbeat."""

    def status(self) -> BaseModel:
        """Return a snapshot."""


def add_probes(app: "App[Request, Response]", state: ProcessState) -> None:
    """Add /healthz and /readyz."""
    app.add_route("/healthz", _Health(state))
    app.add_route("/readyz", _Ready(state))


class _Health:
    def __init__(self, state: ProcessState) -> None:
        self._state = state

    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        age = self._state.heartbeat_age_seconds
        response.status = falcon.HTTP_200 if age < _HEALTHY_SECONDS else falcon.HTTP_503
        response.media = {"heartbeatAgeSeconds": round(age, 3)}


class _Ready:
    def __init__(self, state: ProcessState) -> None:
        self._state = state

    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        shown = self._state.status().model_dump(mode="json", by_alias=True, include=_SHOWN)
        response.status = falcon.HTTP_200 if shown["ready"] else falcon.HTTP_503
        response.media = shown


class Metrics:
    """Prometheus text of a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Answer in the format that the client accepts."""
        encode, content_type = exposition.choose_encoder(request.get_header("Accept") or "")
        response.content_type = content_type
        response.data = encode(self._registry)


class Status:
    """The status of a process as JSON."""

    def __init__(self, state: ProcessState) -> None:
        self._state = state

    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        """Answer with the whole status."""
        response.content_type = falcon.MEDIA_JSON
        response.text = self._state.status().model_dump_json(by_alias=True)
