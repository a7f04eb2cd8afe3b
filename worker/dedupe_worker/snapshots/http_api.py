"""Snapshots in a bucket over HTTP.

POST /snapshots          {"name": "…"}: make one; 202 with its UploadStatus, the same when asked again
POST /snapshots/check    {"name": "…"}: answers {"present": true|false, "record": CheckpointRecord or null}
POST /snapshots/delete   {"names": ["…"]}: answers {"deleted": ["…"], "objects": n, "bytes": n}
"""

from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import falcon
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dedupe_crds.names import ObjectName
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.errors import UploadRunning

if TYPE_CHECKING:
    from dedupe_worker.snapshots.upload_manager import SnapshotKeeper

_COMMAND_SECONDS: Final = 60.0
_MAX_BODY_BYTES: Final = 1 << 20

_Body = TypeVar("_Body", bound=BaseModel)


class _Named(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: ObjectName


class _AllNamed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    names: Annotated[list[ObjectName], Field(min_length=1, max_length=1000)]


def add_routes(
    app: "falcon.App[falcon.Request, falcon.Response]",
    commands: CommandQueue,
    keeper: "SnapshotKeeper | None",
) -> None:
    """Add them; without a keeper each answers 400 and says why."""
    app.add_route("/snapshots", _Snapshots(commands, keeper))
    app.add_route("/snapshots/check", _Check(keeper))
    app.add_route("/snapshots/delete", _Delete(keeper))
    app.add_error_handler(UploadRunning, _conflict)


class _Snapshots:
    def __init__(self, commands: CommandQueue, keeper: "SnapshotKeeper | None") -> None:
        self._commands = commands
        self._keeper = keeper

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        name = _body(request, _Named).name
        # An upload that is known is told of without the loop, which may be busy or at fault.
        status = _there(self._keeper).known(name) or self._commands.call(
            lambda store: store.snapshot(name), _COMMAND_SECONDS
        )
        if status is None:
            raise falcon.HTTPConflict(
                title="NothingToCheckpoint", description="the store is still empty"
            )
        response.status = falcon.HTTP_202
        response.content_type = falcon.MEDIA_JSON
        response.text = status.model_dump_json(by_alias=True)


class _Check:
    def __init__(self, keeper: "SnapshotKeeper | None") -> None:
        self._keeper = keeper

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        name = _body(request, _Named).name
        record = _there(self._keeper).check(name)
        response.media = {
            "present": record is not None,
            "record": record.model_dump(mode="json", by_alias=True) if record else None,
        }


class _Delete:
    def __init__(self, keeper: "SnapshotKeeper | None") -> None:
        self._keeper = keeper

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        names = _body(request, _AllNamed).names
        deleted = _there(self._keeper).delete(names)
        response.media = {
            "deleted": deleted.names,
            "objects": deleted.objects,
            "bytes": deleted.bytes,
        }


def _there(keeper: "SnapshotKeeper | None") -> "SnapshotKeeper":
    if keeper is None:
        raise falcon.HTTPBadRequest(
            title="NoBucket", description="the stream has no spec.snapshots.s3"
        )
    return keeper


def _body(request: falcon.Request, model: type[_Body]) -> _Body:
    if (request.content_length or 0) > _MAX_BODY_BYTES:
        raise falcon.HTTPContentTooLarge(description=f"at most {_MAX_BODY_BYTES} bytes")
    try:
        return model.model_validate_json(request.bounded_stream.read(_MAX_BODY_BYTES))
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
