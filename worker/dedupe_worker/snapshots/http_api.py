"""The HTTP routes of snapshots in a bucket. `admin.http_api` adds them.

POST /snapshots          {"name": "…"}: make a snapshot; 202 with its UploadStatus, and the same to a repeated request
POST /snapshots/check    {"name": "…"}: answers {"present": true|false, "record": CheckpointRecord or null}
POST /snapshots/delete   {"names": ["…"]}: answers {"deleted": ["…"], "objects": n, "bytes": n}

Each takes a "location", the bucket of these snapshots, with the stream's credentials. By default it is that of the
manifest.
"""

from typing import TYPE_CHECKING, Annotated, TypeVar

import falcon
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dedupe_crds.names import ObjectName
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_httpd.bounded_server import MAX_BODY_BYTES
from dedupe_worker.errors import UploadRunning

if TYPE_CHECKING:
    from dedupe_worker.snapshots.upload_manager import OnLoop, UploadManager

_Body = TypeVar("_Body", bound=BaseModel)


class _Named(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: ObjectName
    location: CopyLocation | None = None


class _AllNamed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    names: Annotated[list[ObjectName], Field(min_length=1, max_length=1000)]
    location: CopyLocation | None = None


def add_routes(
    app: "falcon.App[falcon.Request, falcon.Response]",
    on_loop: "OnLoop",
    manager: "UploadManager | None",
) -> None:
    """Add the routes; without a manager each answers 400 and says why."""
    app.add_route("/snapshots", _Snapshots(on_loop, manager))
    app.add_route("/snapshots/check", _Check(manager))
    app.add_route("/snapshots/delete", _Delete(manager))
    app.add_error_handler(UploadRunning, _conflict)


class _Snapshots:
    def __init__(self, on_loop: "OnLoop", manager: "UploadManager | None") -> None:
        self._on_loop = on_loop
        self._manager = manager

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = _body(request, _Named)
        manager = _configured(self._manager)
        status = manager.make_snapshot(wanted.name, self._on_loop, wanted.location)
        if status is None:
            raise falcon.HTTPConflict(
                title="NothingToCheckpoint", description="the store is still empty"
            )
        response.status = falcon.HTTP_202
        response.content_type = falcon.MEDIA_JSON
        response.text = status.model_dump_json(by_alias=True)


class _Check:
    def __init__(self, manager: "UploadManager | None") -> None:
        self._manager = manager

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = _body(request, _Named)
        record = _configured(self._manager).check(wanted.name, wanted.location)
        response.media = {
            "present": record is not None,
            "record": record.model_dump(mode="json", by_alias=True) if record else None,
        }


class _Delete:
    def __init__(self, manager: "UploadManager | None") -> None:
        self._manager = manager

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = _body(request, _AllNamed)
        deleted = _configured(self._manager).delete(wanted.names, wanted.location)
        response.media = {
            "deleted": deleted.names,
            "objects": deleted.objects,
            "bytes": deleted.bytes,
        }


def _configured(manager: "UploadManager | None") -> "UploadManager":
    if manager is None:
        raise falcon.HTTPBadRequest(
            title="NoBucket",
            description="the stream has no spec.snapshots.s3, whose credentials reach its copies in buckets",
        )
    return manager


def _body(request: falcon.Request, model: type[_Body]) -> _Body:
    try:
        return model.model_validate_json(request.bounded_stream.read(MAX_BODY_BYTES))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the body"
        raise falcon.HTTPBadRequest(
            title="BadRequest", description=f"{field}: {first['msg']}"
        ) from error


def _conflict(
    _request: falcon.Request, _response: falcon.Response, error: Exception, _params: object
) -> None:
    raise falcon.HTTPConflict(title="Busy", description=str(error))
